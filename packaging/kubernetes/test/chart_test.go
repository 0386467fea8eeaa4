package manifests

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	core "k8s.io/api/core/v1"
)

const (
	chartDir  = "../../helm/nri-container-runtime"
	namespace = "nri-container-runtime"
)

// values is what --set gives, by the names of values.yaml.
type values = map[string]any

func load(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// render does what `helm template --namespace nri-container-runtime` does; the keys are the names
// of the templates.
func render(loaded *chart.Chart, set values) (map[string]string, error) {
	options := chartutil.ReleaseOptions{Name: "nri", Namespace: namespace, IsInstall: true}
	capabilities := chartutil.DefaultCapabilities
	all, err := chartutil.ToRenderValues(loaded, set, options, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// template returns the objects of the chart.
func template(t *testing.T, set values) overlay {
	t.Helper()
	rendered, err := render(load(t), set)
	if err != nil {
		t.Fatal(err)
	}
	var found overlay
	for name, text := range rendered {
		if strings.HasSuffix(name, "NOTES.txt") || strings.TrimSpace(text) == "" {
			continue
		}
		found.add(t, text)
	}
	return found
}

// normal prints the objects but for the namespace, which `helm install` does not create, with the
// variables of the installer in order.
func normal(built overlay) string {
	for _, set := range built.daemonSets {
		slices.SortFunc(set.Spec.Template.Spec.InitContainers[0].Env, func(a, b core.EnvVar) int {
			return cmp.Compare(a.Name, b.Name)
		})
	}
	return printed(built)
}

// chartValues has the values that give the objects of an overlay.
var chartValues = map[string]values{
	"containerd":           {},
	"containerd-default":   {"defaultRuntime": true, "restartEngine": true},
	"containerd-uninstall": {"uninstall": true},
	"crio":                 {"engine": "crio"},
	"crio-default":         {"engine": "crio", "defaultRuntime": true, "restartEngine": true},
	"crio-uninstall":       {"engine": "crio", "uninstall": true},
}

func TestTheChartHasTheObjectsOfTheOverlays(t *testing.T) {
	for name := range installerSettings {
		t.Run(name, func(t *testing.T) {
			set, isListed := chartValues[name]
			if !isListed {
				t.Fatal("the overlay is not listed in chartValues")
			}
			expected := normal(build(t, filepath.Join("../overlays", name)))
			if got := normal(template(t, set)); got != expected {
				t.Errorf("the chart has\n%s\nthe overlay has\n%s", got, expected)
			}
		})
	}
}

func TestTheChartHasTheSettingsOfTheComponents(t *testing.T) {
	built := template(t, values{
		"labelledNodes": true, "engineService": "k3s", "installOptions": "--nri ours",
		"handler": "other", "runtimeClass": values{"name": "adjusted"},
		"image":            values{"repository": "example.org/installer", "tag": "1"},
		"imagePullSecrets": []any{values{"name": "secret"}},
		"maxUnavailable":   2,
	})
	set, class := built.daemonSets[0].Spec, built.classes[0]
	pod := set.Template.Spec
	const label = "nri-container-runtime/node"
	if pod.NodeSelector[label] != "true" || class.Scheduling.NodeSelector[label] != "true" {
		t.Errorf("%v %+v", pod.NodeSelector, class)
	}
	variables := environment(pod.InitContainers[0])
	if variables["ENGINE_SERVICE"] != "k3s" || variables["INSTALL_OPTIONS"] != "--nri ours" ||
		variables["HANDLER"] != "other" || class.Handler != "other" || class.Name != "adjusted" {
		t.Errorf("%v %+v", variables, class)
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		if container.Image != "example.org/installer:1" {
			t.Errorf("image %s", container.Image)
		}
	}
	if len(pod.ImagePullSecrets) != 1 || pod.ImagePullSecrets[0].Name != "secret" ||
		set.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue() != 2 {
		t.Errorf("%+v", set)
	}
	built = template(t, values{
		"criticalPodsQuota": false, "runtimeClass": values{"create": false},
	})
	if len(built.quotas)+len(built.classes) != 0 || len(built.daemonSets) != 1 {
		t.Errorf("%s", printed(built))
	}
}

func TestTheChartRefusesWrongValues(t *testing.T) {
	for _, wrong := range []values{
		{"engine": "podman"}, {"engin": "crio"}, {"uninstall": "yes"}, {"handler": "A b"},
	} {
		if _, err := render(load(t), wrong); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

func TestTheNotesNameTheNextSteps(t *testing.T) {
	for step, set := range map[string]values{
		"known after its next restart": {}, "helm -n nri-container-runtime uninstall nri": {
			"uninstall": true,
		},
	} {
		rendered, err := render(load(t), set)
		if err != nil {
			t.Fatal(err)
		}
		notes := rendered["nri-container-runtime/templates/NOTES.txt"]
		if !strings.Contains(notes, step) {
			t.Errorf("%v: %s", set, notes)
		}
	}
}

func TestHelmLintFindsNothing(t *testing.T) {
	linter := lint.All(chartDir, values{}, namespace, true)
	for _, message := range linter.Messages {
		// A chart without an icon is the only remark that stays.
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}

func TestTheChartHasTheVersionOfThePrograms(t *testing.T) {
	metadata := load(t).Metadata
	version := match(t, "../../../Cargo.toml", `(?m)^version = "(.*)"$`)
	if metadata.Version != version || metadata.AppVersion != version {
		t.Errorf("%+v, expected %s", metadata, version)
	}
}
