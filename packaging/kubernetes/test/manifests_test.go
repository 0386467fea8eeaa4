// Package manifests builds every overlay with kustomize, reads the outcome as the API server's own types, strictly, and looks at what it says.
package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	node "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// What one overlay consists of.
type overlay struct {
	classes    []*node.RuntimeClass
	daemonSets []*apps.DaemonSet
	namespaces []*core.Namespace
	quotas     []*core.ResourceQuota
}

// A reader that refuses unknown and doubled fields.
func strict() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, apps.AddToScheme, node.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
}

func build(t *testing.T, dir string) overlay {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var found overlay
	for _, resource := range resources.Resources() {
		text := resource.MustYaml()
		object, _, err := strict().Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch object := object.(type) {
		case *node.RuntimeClass:
			found.classes = append(found.classes, object)
		case *apps.DaemonSet:
			found.daemonSets = append(found.daemonSets, object)
		case *core.Namespace:
			found.namespaces = append(found.namespaces, object)
		case *core.ResourceQuota:
			found.quotas = append(found.quotas, object)
		default:
			t.Fatalf("nobody expects this:\n%s", text)
		}
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The first group of an expression in a file.
func say(t *testing.T, path, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindStringSubmatch(read(t, path))
	if found == nil {
		t.Fatalf("%s has nothing like %s", path, expression)
	}
	return found[1]
}

func environment(container core.Container) map[string]string {
	found := map[string]string{}
	for _, variable := range container.Env {
		found[variable.Name] = variable.Value
	}
	return found
}

// What the installer is told, by overlay. An overlay that is not here is missing a test.
var told = map[string]struct {
	engine             string
	verb               string
	isDefault, restart string
}{
	"containerd":           {"containerd", "install", "false", "false"},
	"containerd-default":   {"containerd", "install", "true", "true"},
	"containerd-uninstall": {"containerd", "uninstall", "false", "true"},
	"crio":                 {"crio", "install", "false", "false"},
	"crio-default":         {"crio", "install", "true", "true"},
	"crio-uninstall":       {"crio", "uninstall", "false", "true"},
}

func TestOverlays(t *testing.T) {
	dirs, err := filepath.Glob("../overlays/*")
	if err != nil || len(dirs) != len(told) {
		t.Fatalf("%d overlays are known, these are there: %v %v", len(told), dirs, err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			expected, known := told[name]
			if !known {
				t.Fatal("not known")
			}
			built := build(t, dir)
			if len(built.daemonSets) != 1 || len(built.namespaces) != 1 || len(built.quotas) != 1 {
				t.Fatalf("%+v", built)
			}
			set := built.daemonSets[0]
			checkNamespace(t, built)
			checkPod(t, set)
			installer := set.Spec.Template.Spec.InitContainers[0]
			if len(installer.Args) != 1 || installer.Args[0] != expected.verb {
				t.Errorf("args %v", installer.Args)
			}
			variables := environment(installer)
			want := map[string]string{
				"ENGINE": expected.engine, "HANDLER": "nri", "DEFAULT_RUNTIME": expected.isDefault, "RESTART_ENGINE": expected.restart,
			}
			for variable, value := range want {
				if variables[variable] != value {
					t.Errorf("%s is %q and not %q", variable, variables[variable], value)
				}
			}
			script := read(t, "../installer/installer.sh")
			for variable := range variables {
				if !strings.Contains(script, "#   "+variable+" ") {
					t.Errorf("the installer says nothing of %s", variable)
				}
			}
			switch {
			case expected.verb == "uninstall":
				if len(built.classes) != 0 {
					t.Error("new pods can ask for what is being removed")
				}
			case len(built.classes) != 1 || built.classes[0].Name != "nri" || built.classes[0].Handler != variables["HANDLER"]:
				t.Errorf("%+v", built.classes)
			}
		})
	}
}

func checkNamespace(t *testing.T, built overlay) {
	namespace := built.namespaces[0]
	for _, other := range []string{built.daemonSets[0].Namespace, built.quotas[0].Namespace} {
		if other != namespace.Name || other == "" {
			t.Errorf("in namespace %q", other)
		}
	}
	if namespace.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("the installer cannot run there: %v", namespace.Labels)
	}
	priority := built.daemonSets[0].Spec.Template.Spec.PriorityClassName
	scope := built.quotas[0].Spec.ScopeSelector.MatchExpressions[0]
	if priority != "system-node-critical" || scope.Values[0] != priority {
		t.Errorf("priority %s, quota for %v", priority, scope.Values)
	}
}

func checkPod(t *testing.T, set *apps.DaemonSet) {
	for label, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[label] != value {
			t.Errorf("%s does not select its own pods", label)
		}
	}
	pod := set.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	if !pod.HostPID || pod.HostNetwork || pod.HostIPC || *pod.AutomountServiceAccountToken || len(pod.Volumes) != 0 {
		t.Errorf("not what the installer needs: %+v", pod)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0] != (core.Toleration{Operator: core.TolerationOpExists}) {
		t.Errorf("tolerations %v", pod.Tolerations)
	}
	if pod.NodeSelector["kubernetes.io/os"] != "linux" {
		t.Errorf("on nodes %v", pod.NodeSelector)
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		checkImage(t, container.Image)
		for _, resource := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
			if request := container.Resources.Requests[resource]; request.IsZero() {
				t.Errorf("%s asks for no %s", container.Name, resource)
			}
		}
	}
	if install := pod.InitContainers[0].SecurityContext; !*install.Privileged || *install.RunAsUser != 0 {
		t.Errorf("%+v", install)
	}
	wait := pod.Containers[0].SecurityContext
	if wait.Privileged != nil || *wait.AllowPrivilegeEscalation || !*wait.RunAsNonRoot || len(wait.Capabilities.Drop) != 1 ||
		wait.Capabilities.Drop[0] != "ALL" || wait.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%+v", wait)
	}
}

// Its name without a registry, which is everybody's own, in the version of the programs.
func checkImage(t *testing.T, image string) {
	version := say(t, "../../../Cargo.toml", `(?m)^version = "(.*)"$`)
	if image != "nri-container-runtime-installer:"+version {
		t.Errorf("image %s", image)
	}
}

func TestComponentsCombine(t *testing.T) {
	// kustomize reads nothing outside; a directory beside the overlays is as good as one of them.
	dir, err := os.MkdirTemp("../overlays", ".test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text := "resources: [../crio]\ncomponents: [../../components/labelled-nodes, ../../components/restart-engine]\n" +
		"images: [{name: nri-container-runtime-installer, newName: example.org/installer}]\n"
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	built := build(t, dir)
	pod := built.daemonSets[0].Spec.Template.Spec
	const label = "nri-container-runtime/node"
	if pod.NodeSelector[label] != "true" || built.classes[0].Scheduling.NodeSelector[label] != "true" {
		t.Errorf("%v %+v", pod.NodeSelector, built.classes[0])
	}
	if variables := environment(pod.InitContainers[0]); variables["RESTART_ENGINE"] != "true" || variables["ENGINE"] != "crio" {
		t.Errorf("%v", variables)
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		if !strings.HasPrefix(container.Image, "example.org/installer:") {
			t.Errorf("image %s", container.Image)
		}
	}
}

func TestReaderIsStrict(t *testing.T) {
	head := "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: a}\n"
	for text, good := range map[string]bool{
		"handler: nri\n":                 true,
		"handler: nri\nhandlr: nri\n":    false,
		"handler: nri\nhandler: other\n": false,
		"handler: [nri]\n":               false,
	} {
		if _, _, err := strict().Decode([]byte(head+text), nil, nil); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
