// Package manifests tests the Kubernetes manifests: it builds every overlay with kustomize, decodes
// the objects strictly into the types of the API server, and checks their values. The Helm chart
// has to give the same objects.
package manifests

import (
	"os"
	"path/filepath"
	"reflect"
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
	"sigs.k8s.io/yaml"
)

// overlay has the objects of a built overlay.
type overlay struct {
	classes    []*node.RuntimeClass
	daemonSets []*apps.DaemonSet
	namespaces []*core.Namespace
	quotas     []*core.ResourceQuota
}

// strict returns a decoder that refuses unknown and duplicate fields.
func strict() runtime.Decoder {
	scheme := runtime.NewScheme()
	groups := []func(*runtime.Scheme) error{
		core.AddToScheme, apps.AddToScheme, node.AddToScheme,
	}
	for _, add := range groups {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
}

func build(t *testing.T, dir string) overlay {
	t.Helper()
	kustomizer := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
	resources, err := kustomizer.Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var found overlay
	for _, resource := range resources.Resources() {
		found.add(t, resource.MustYaml())
	}
	return found
}

// add decodes an object.
func (found *overlay) add(t *testing.T, text string) {
	t.Helper()
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
		t.Fatalf("object of an unexpected kind:\n%s", text)
	}
}

// printed returns the objects as YAML.
func printed(built overlay) string {
	var text strings.Builder
	show := func(object any) {
		line, _ := yaml.Marshal(object)
		text.WriteString("---\n" + string(line))
	}
	for _, object := range built.classes {
		show(object)
	}
	for _, object := range built.quotas {
		show(object)
	}
	for _, object := range built.daemonSets {
		show(object)
	}
	return text.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// match returns the text of the first group of a regular expression in a file.
func match(t *testing.T, path, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindStringSubmatch(read(t, path))
	if found == nil {
		t.Fatalf("%s has no match of %s", path, expression)
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

// installerSettings has the expected arguments and variables of the installer by overlay. An
// overlay that is not listed fails TestOverlays.
var installerSettings = map[string]struct {
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
	if err != nil || len(dirs) != len(installerSettings) {
		t.Fatalf("%d overlays are listed, these exist: %v %v", len(installerSettings), dirs, err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			expected, isListed := installerSettings[name]
			if !isListed {
				t.Fatal("the overlay is not listed in installerSettings")
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
				"ENGINE": expected.engine, "HANDLER": "nri",
				"DEFAULT_RUNTIME": expected.isDefault, "RESTART_ENGINE": expected.restart,
			}
			for variable, value := range want {
				if variables[variable] != value {
					t.Errorf("%s is %q, expected %q", variable, variables[variable], value)
				}
			}
			script := read(t, "../installer/installer.sh")
			for variable := range variables {
				if !strings.Contains(script, "#   "+variable+" ") {
					t.Errorf("installer.sh does not document %s", variable)
				}
			}
			switch {
			case expected.verb == "uninstall":
				if len(built.classes) != 0 {
					t.Error("the runtime class exists, so new pods can request the removed wrapper")
				}
			case len(built.classes) != 1 || built.classes[0].Name != "nri" ||
				built.classes[0].Handler != variables["HANDLER"]:
				t.Errorf("%+v", built.classes)
			}
		})
	}
}

func checkNamespace(t *testing.T, built overlay) {
	namespace := built.namespaces[0]
	for _, other := range []string{built.daemonSets[0].Namespace, built.quotas[0].Namespace} {
		if other != namespace.Name || other == "" {
			t.Errorf("an object is in namespace %q, expected %q", other, namespace.Name)
		}
	}
	if namespace.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("the namespace does not allow privileged pods: %v", namespace.Labels)
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
			t.Errorf("the selector with label %s does not match the pod template", label)
		}
	}
	pod := set.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	if !pod.HostPID || pod.HostNetwork || pod.HostIPC || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod needs the pid namespace of the host and nothing else: %+v", pod)
	}
	checkProbe(t, pod)
	tolerateAll := core.Toleration{Operator: core.TolerationOpExists}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0] != tolerateAll {
		t.Errorf("tolerations %v", pod.Tolerations)
	}
	if pod.NodeSelector["kubernetes.io/os"] != "linux" {
		t.Errorf("the node selector is not linux: %v", pod.NodeSelector)
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		checkImage(t, container.Image)
		for _, resource := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
			if request := container.Resources.Requests[resource]; request.IsZero() {
				t.Errorf("container %s requests no %s", container.Name, resource)
			}
		}
	}
	install := pod.InitContainers[0].SecurityContext
	if !*install.Privileged || *install.RunAsUser != 0 {
		t.Errorf("the init container is not privileged root: %+v", install)
	}
	wait := pod.Containers[0].SecurityContext
	if wait.Privileged != nil || *wait.AllowPrivilegeEscalation || !*wait.RunAsNonRoot ||
		len(wait.Capabilities.Drop) != 1 || wait.Capabilities.Drop[0] != "ALL" ||
		wait.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the waiting container has privileges: %+v", wait)
	}
}

// checkProbe checks that an installed nrid is asked whether it serves, through a directory without
// the control socket, and that an uninstallation waits for no nrid.
func checkProbe(t *testing.T, pod core.PodSpec) {
	const directory = "/run/nri-container-runtime/plugins"
	waiting := pod.Containers[0]
	if pod.InitContainers[0].Args[0] == "uninstall" {
		if waiting.ReadinessProbe != nil || len(waiting.VolumeMounts)+len(pod.Volumes) != 0 {
			t.Errorf("the pod of an uninstallation waits for nrid: %+v", pod)
		}
		return
	}
	command := []string{
		"/usr/local/lib/nri-container-runtime/nrictl", "--state-dir=" + filepath.Dir(directory),
		"ready",
	}
	if waiting.ReadinessProbe == nil ||
		!reflect.DeepEqual(waiting.ReadinessProbe.Exec.Command, command) {
		t.Errorf("the readiness probe does not ask nrid: %+v", waiting.ReadinessProbe)
	}
	if len(pod.Volumes) != 1 || pod.Volumes[0].HostPath.Path != directory {
		t.Errorf("volumes %+v", pod.Volumes)
	}
	mount := core.VolumeMount{Name: pod.Volumes[0].Name, MountPath: directory, ReadOnly: true}
	if !reflect.DeepEqual(waiting.VolumeMounts, []core.VolumeMount{mount}) ||
		len(pod.InitContainers[0].VolumeMounts) != 0 {
		t.Errorf("mounts %+v", waiting.VolumeMounts)
	}
}

// checkImage checks that the image has the version of the programs and no registry, since users
// push it to a registry of their own.
func checkImage(t *testing.T, image string) {
	version := match(t, "../../../Cargo.toml", `(?m)^version = "(.*)"$`)
	if image != "nri-container-runtime-installer:"+version {
		t.Errorf("image %s", image)
	}
}

func TestComponentsCombine(t *testing.T) {
	// The directory is beside the overlays, so that its relative paths are those of an overlay.
	dir, err := os.MkdirTemp("../overlays", ".test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text := "resources: [../crio]\n" +
		"components: [../../components/labelled-nodes, ../../components/restart-engine]\n" +
		"images: [{name: nri-container-runtime-installer, newName: example.org/installer}]\n"
	file := filepath.Join(dir, "kustomization.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	built := build(t, dir)
	pod := built.daemonSets[0].Spec.Template.Spec
	const label = "nri-container-runtime/node"
	class := built.classes[0]
	if pod.NodeSelector[label] != "true" || class.Scheduling.NodeSelector[label] != "true" {
		t.Errorf("%v %+v", pod.NodeSelector, class)
	}
	variables := environment(pod.InitContainers[0])
	if variables["RESTART_ENGINE"] != "true" || variables["ENGINE"] != "crio" {
		t.Errorf("%v", variables)
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		if !strings.HasPrefix(container.Image, "example.org/installer:") {
			t.Errorf("image %s", container.Image)
		}
	}
}

func TestDecoderRefusesUnknownAndDuplicateFields(t *testing.T) {
	head := "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: a}\n"
	for text, isValid := range map[string]bool{
		"handler: nri\n":                 true,
		"handler: nri\nhandlr: nri\n":    false,
		"handler: nri\nhandler: other\n": false,
		"handler: [nri]\n":               false,
	} {
		if _, _, err := strict().Decode([]byte(head+text), nil, nil); (err == nil) != isValid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
