package helm

import (
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// combinations are values that each change the shape of what is rendered.
var combinations = map[string][]string{
	"default":             nil,
	"kind":                {"--values", "kind.yaml"},
	"operator driver":     {"--set", "driverRoot=/run/nvidia/driver,devRoot=/,procRoot=/proc,sysRoot=/host/sys"},
	"host's hook":         {"--set", "nvidiaCDIHookPath=/usr/bin/nvidia-cdi-hook"},
	"nvml path":           {"--set", "nvmlLibraryPath=/driver-root/usr/lib64/libnvidia-ml.so.1"},
	"kubelet dir":         {"--set", "kubeletDir=/mnt/kubelet"},
	"other driver":        {"--set", "driverName=gpu.example.com"},
	"other names":         {"--set", "nameOverride=slicer,fullnameOverride=the-slicer,serviceAccount.name=robot"},
	"account of others":   {"--set", "serviceAccount.create=false,serviceAccount.name=theirs"},
	"definitions":         {"--set", "crds.enabled=true"},
	"definitions go":      {"--set", "crds.enabled=true,crds.keep=false"},
	"no classes":          {"--set", "deviceClasses.create=false"},
	"no profiles":         {"--set", "mig.profiles=null"},
	"classes stay":        {"--set", "deviceClasses.keep=true"},
	"extended resources":  {"--set-string", `deviceClasses.extendedResources.gpu=nvidia.com/gpu,deviceClasses.extendedResources.mig-1g\.10gb=nvidia.com/mig-1g.10gb`},
	"annotations":         {"--set-string", `podAnnotations.a\.b/c=1,podLabels.d=2,serviceAccount.annotations.e=3,imagePullSecrets[0].name=s`},
	"node choice":         {"--set-json", `nodeSelector={"a":"b"}`, "--set-json", `tolerations=[{"key":"gpu","operator":"Exists","effect":"NoSchedule"}]`},
	"affinity":            {"--set-json", `affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.present","operator":"Exists"}]},{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}}`},
	"unprivileged":        {"--set", "privileged=false"},
	"no NICs":             {"--set", "nics.enabled=false"},
	"shared NICs":         {"--set", "nics.sharing=bandwidth"},
	"filtered NICs":       {"--set-json", `nics.filter="device.attributes[\"cleave.dev\"].ifName.matches(\"^ib(0|1)$\") && true: 'x'"`},
	"pairs":               {"--set", "topology.pairs=true", "--set-json", `rails={"0000:18:00.0":0,"0000:5d:00.0":1}`},
	"node groups":         {"--set", "mig.existing=serve", "--set-json", `nodeGroups=[{"name":"training","nodeLabel":{"pool":"training"},"topology":{"pairs":true}},{"name":"operated","nodeLabel":{"operator":""},"driverRoot":"/run/nvidia/driver","nics":{"enabled":false}}]`},
	"nothing unavailable": {"--set", "maxUnavailable=25%,resources=null"},
}

func TestEveryCombinationIsKnownToTheAPI(t *testing.T) {
	for name, args := range combinations {
		t.Run(name, func(t *testing.T) {
			if objects := render(t, args...); len(pick[*appsv1.DaemonSet](objects)) == 0 {
				t.Error("rendered no DaemonSet")
			}
		})
	}
}

func TestLint(t *testing.T) {
	binary, err := buildHelm()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "lint", "--strict", "cleave", "--kube-version", "1.37.2").CombinedOutput()
	if err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
}

func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"default.yaml": nil,
		"kind.yaml":    {"--values", "kind.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := template(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, out)
		})
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown value":          {[]string{"--set", "driverNaem=x"}, "driverNaem"},
		"unknown nested value":   {[]string{"--set", "simulated.enable=true"}, "enable"},
		"unknown affinity":       {[]string{"--set", "affinity.nodeAfinity.a=b"}, "nodeAfinity"},
		"driver not a subdomain": {[]string{"--set", "driverName=Cleave_dev"}, "/driverName"},
		"relative folder":        {[]string{"--set", "kubeletDir=var/lib/kubelet"}, "/kubeletDir"},
		"slash at the end":       {[]string{"--set", "cdiDir=/var/run/cdi/"}, "/cdiDir"},
		"not a profile":          {[]string{"--set", "mig.profiles={1g10gb}"}, "/mig/profiles/0"},
		"profile twice":          {[]string{"--set", "mig.profiles={1g.10gb,1g.10gb}"}, "/mig/profiles"},
		"no surge, no rollout":   {[]string{"--set", "maxUnavailable=0"}, "/maxUnavailable"},
		"account without name":   {[]string{"--set", "serviceAccount.create=false"}, "serviceAccount.name"},
		"resource for no class":  {[]string{"--set", "deviceClasses.extendedResources.gpus=nvidia.com/gpu"}, "deviceClasses.extendedResources.gpus: no such class"},
		"unknown sharing":        {[]string{"--set", "nics.sharing=vf"}, "/nics/sharing"},
		"pairs of nothing":       {[]string{"--set", "topology.pairs=true,nics.enabled=false"}, "topology.pairs: there are no pairs without NICs"},
		"pairs and sharing":      {[]string{"--set", "topology.pairs=true,nics.sharing=bandwidth"}, "topology.pairs: a NIC cannot be in pairs and be shared"},
		"rail of an interface":   {[]string{"--set-json", `rails={"mlx5_0":1}`}, "mlx5_0"},
		"rail below zero":        {[]string{"--set-json", `rails={"0000:18:00.0":-1}`}, "/rails"},
		"unknown in a group":     {[]string{"--set-json", `nodeGroups=[{"name":"a","nodeLabel":{"a":"b"},"image":{}}]`}, "image"},
		"group without label":    {[]string{"--set-json", `nodeGroups=[{"name":"a"}]`}, "nodeLabel"},
		"group of two labels":    {[]string{"--set-json", `nodeGroups=[{"name":"a","nodeLabel":{"a":"b","c":"d"}}]`}, "nodeLabel"},
		"group twice":            {[]string{"--set-json", `nodeGroups=[{"name":"a","nodeLabel":{"a":"b"}},{"name":"a","nodeLabel":{"a":"c"}}]`}, "nodeGroups: there are two named a"},
		"bad pairs of a group":   {[]string{"--set-json", `nodeGroups=[{"name":"a","nodeLabel":{"a":"b"},"topology":{"pairs":true},"nics":{"sharing":"bandwidth"}}]`}, "topology.pairs: a NIC cannot"},
		"old cluster":            {[]string{"--kube-version", "1.36.9"}, "kubeVersion: >=1.37.0-0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := template(t, tc.args...)
			if err == nil {
				t.Fatalf("accepted %v and rendered:\n%s", tc.args, out)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error does not name %q: %v", tc.want, err)
			}
		})
	}
}
