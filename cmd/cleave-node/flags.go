package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cleave-dra/cleave/pkg/daemon"
	"github.com/cleave-dra/cleave/pkg/hardware"
	pool "github.com/cleave-dra/cleave/pkg/slices"
)

// version is set by the linker.
var version = "devel"

// options are the command line.
type options struct {
	daemon *daemon.Config

	driverName, nodeName, podUID string
	pluginDir, registrarDir      string
	cdiDir, hookPath             string
	libraryPath                  string
	driverRoot, hostDriverRoot   string
	devRoot, procRoot, sysRoot   string

	migModeToggle, migExisting string
	allowCoexistence           bool

	nics, pairs bool
	nicSharing  string
	nicFilter   string
	rails       map[string]int
}

// Values of --mig-mode-toggle and --mig-existing.
const (
	toggleAuto, toggleNever      = "auto", "never"
	existingTaint, existingServe = "taint", "serve"
)

// maxDriverName is the API's limit.
const maxDriverName = resourceapi.DriverNameMaxLength

// parse reads the command line; nil options mean that it asked for no more than
// what was printed.
func parse(args []string, stdout io.Writer) (*options, error) {
	o := &options{daemon: daemon.DefaultConfig()}
	fs := pflag.NewFlagSet("cleave-node", pflag.ContinueOnError)
	fs.SetOutput(stdout)
	fs.StringVar(&o.driverName, "driver-name", "cleave.dev", "name of the DRA driver, a DNS subdomain")
	fs.StringVar(&o.nodeName, "node-name", "", "name of this Kubernetes node (required)")
	fs.StringVar(&o.podUID, "pod-uid", "", "UID of the pod that this runs in, for logs")
	fs.StringVar(&o.registrarDir, "kubelet-registrar-dir", "/var/lib/kubelet/plugins_registry", "`directory` in which the kubelet looks for plugins")
	fs.StringVar(&o.pluginDir, "plugin-dir", "", "`directory` for the socket and for what claims hold (default /var/lib/kubelet/plugins/<driver name>)")
	fs.StringVar(&o.cdiDir, "cdi-dir", "/var/run/cdi", "`directory` in which the container runtime looks for CDI files")
	fs.StringVar(&o.libraryPath, "nvml-library-path", "", "`file` of libnvidia-ml.so.1 (default: searched below --driver-root)")
	fs.StringVar(&o.driverRoot, "driver-root", "/", "root of the NVIDIA driver's files, as this process sees it")
	fs.StringVar(&o.hostDriverRoot, "host-driver-root", "", "the same as the container runtime sees it (default: as --driver-root)")
	fs.StringVar(&o.devRoot, "dev-root", "", "`directory` above dev/nvidia* (default: as --driver-root)")
	fs.StringVar(&o.procRoot, "proc-root", "/proc", "the host's /proc, or a tree like it")
	fs.StringVar(&o.sysRoot, "sys-root", "/sys", "the host's /sys, or a tree like it")
	fs.StringVar(&o.hookPath, "nvidia-cdi-hook-path", "", "`file` of nvidia-cdi-hook on the host (default: in the plugin's directory)")
	fs.StringVar(&o.migModeToggle, "mig-mode-toggle", toggleAuto, "whether MIG mode is changed as claims need it, where that takes no GPU reset: auto or never")
	fs.StringVar(&o.migExisting, "mig-existing", existingTaint, "what becomes of MIG instances that were there before: taint what overlaps them, or serve them as they are")
	fs.BoolVar(&o.allowCoexistence, "allow-coexistence", false, "publish although another driver or device plugin offers this node's GPUs; each must be kept from the other's by hand")
	fs.BoolVar(&o.nics, "nics", false, "publish RDMA NICs; without --nic-filter except those that carry the host's default route")
	fs.StringVar(&o.nicFilter, "nic-filter", "", "CEL `expression`, as in a selector of a DeviceClass, that alone decides which NICs are published; needs the program "+filterProgram+" beside this one")
	fs.StringVar(&o.nicSharing, "nic-sharing", string(pool.NICExclusive), "how claims share a NIC: none, or bandwidth")
	fs.BoolVar(&o.pairs, "topology-pairs", false, "publish each GPU together with each NIC nearest to it, too")
	fs.StringToIntVar(&o.rails, "rail", nil, "rail of a NIC, as `address=number`; may be given several times (default: NICs near GPUs are counted in the order of their switches)")
	showVersion := fs.Bool("version", false, "print the version and exit")
	o.daemon.AddFlags(fs)

	if err := fs.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if *showVersion {
		_, err := fmt.Fprintln(stdout, "cleave-node", version)
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: all settings are flags, see --help", fs.Arg(0))
	}
	return o, o.complete()
}

// complete fills in what follows from other flags and refuses what cannot work.
func (o *options) complete() error {
	var errs []error
	if o.nodeName == "" {
		errs = append(errs, errors.New("--node-name: required; in a pod, take it from spec.nodeName"))
	}
	for flag, name := range map[string]string{"--driver-name": o.driverName, "--node-name": o.nodeName} {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			if name != "" {
				errs = append(errs, fmt.Errorf("%s %q: %s", flag, name, msg))
			}
		}
	}
	if o.driverName == "" || len(o.driverName) > maxDriverName {
		errs = append(errs, fmt.Errorf("--driver-name %q: want 1 to %d characters", o.driverName, maxDriverName))
	}
	errs = append(errs, o.checkChoices()...)
	errs = append(errs, o.checkNICs()...)
	orElse := func(value *string, other string) {
		if *value == "" {
			*value = other
		}
	}
	orElse(&o.pluginDir, filepath.Join("/var/lib/kubelet/plugins", o.driverName))
	orElse(&o.hostDriverRoot, o.driverRoot)
	orElse(&o.devRoot, o.driverRoot)
	orElse(&o.hookPath, filepath.Join(o.pluginDir, "nvidia-cdi-hook"))
	for flag, path := range map[string]string{"--plugin-dir": o.pluginDir, "--kubelet-registrar-dir": o.registrarDir, "--cdi-dir": o.cdiDir,
		"--dev-root": o.devRoot, "--proc-root": o.procRoot, "--sys-root": o.sysRoot,
		"--driver-root": o.driverRoot, "--host-driver-root": o.hostDriverRoot, "--nvidia-cdi-hook-path": o.hookPath} {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("%s %q: must be an absolute path", flag, path))
		}
	}
	return errors.Join(errs...)
}

// checkChoices finds values that are none of those that a flag has.
func (o *options) checkChoices() []error {
	var errs []error
	for flag, choice := range map[string]struct {
		value string
		of    []string
	}{
		"--mig-mode-toggle": {o.migModeToggle, []string{toggleAuto, toggleNever}},
		"--mig-existing":    {o.migExisting, []string{existingTaint, existingServe}},
		"--nic-sharing":     {o.nicSharing, []string{string(pool.NICExclusive), string(pool.NICByBandwidth)}},
	} {
		if !slices.Contains(choice.of, choice.value) {
			errs = append(errs, fmt.Errorf("%s %q: want %s", flag, choice.value, strings.Join(choice.of, " or ")))
		}
	}
	return errs
}

// checkNICs finds what the flags about NICs cannot mean.
func (o *options) checkNICs() []error {
	var errs []error
	if o.pairs && (!o.nics || o.nicSharing != string(pool.NICExclusive)) {
		errs = append(errs, errors.New("--topology-pairs: needs --nics, and --nic-sharing none: a NIC is either in pairs or shared by bandwidth"))
	}
	if o.nicFilter != "" && !o.nics {
		errs = append(errs, errors.New("--nic-filter: needs --nics"))
	}
	for address := range o.rails {
		if _, err := hardware.ParsePCIAddress(address); err != nil {
			errs = append(errs, fmt.Errorf("--rail: %w", err))
		}
	}
	return errs
}

// addresses are the rails by their NICs, whose spelling complete has checked.
func (o *options) addresses() map[hardware.PCIAddress]int {
	out := map[hardware.PCIAddress]int{}
	for address, rail := range o.rails {
		if addr, err := hardware.ParsePCIAddress(address); err == nil {
			out[addr] = rail
		}
	}
	return out
}
