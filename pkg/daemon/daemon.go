package daemon

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
)

// Config is what every daemon is told.
type Config struct {
	// Kubeconfig is a file; empty inside a pod.
	Kubeconfig string
	// QPS and Burst limit the requests per second to the API server. The
	// publishing and preparing library reads every claim through this client, so
	// client-go's default of 5 a second would cost most of a claim's time.
	QPS   float32
	Burst int
	// HTTPAddress is where health checks and metrics are served.
	HTTPAddress string

	logging *logsapi.LoggingConfiguration
}

// DefaultConfig is Config where nobody says otherwise.
func DefaultConfig() *Config {
	return &Config{QPS: 100, Burst: 200, HTTPAddress: ":8080", logging: logsapi.NewLoggingConfiguration()}
}

// AddFlags adds the flags that all daemons have.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "kubeconfig `file`; not needed inside a pod")
	fs.Float32Var(&c.QPS, "kube-api-qps", c.QPS, "requests per second to the API server")
	fs.IntVar(&c.Burst, "kube-api-burst", c.Burst, "requests to the API server that may come at once")
	fs.StringVar(&c.HTTPAddress, "http-address", c.HTTPAddress, "`address` for /healthz, /readyz and /metrics")
	logsapi.AddFlags(c.logging, fs)
}

// Context is done at SIGINT or SIGTERM and carries the logger that the flags ask
// for. stop releases the signals and flushes the log.
func (c *Config) Context(stderr io.Writer) (ctx context.Context, stop func(), err error) {
	logs.InitLogs()
	options := &logsapi.LoggingOptions{ErrorStream: stderr, InfoStream: stderr}
	if err := logsapi.ValidateAndApplyWithOptions(c.logging, options, nil); err != nil {
		return nil, nil, fmt.Errorf("set up logging: %w", err)
	}
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	return klog.NewContext(ctx, klog.Background()), func() { release(); logs.FlushLogs() }, nil
}

// KubeClient connects to the API server; it does not talk to it yet.
func (c *Config) KubeClient() (kubernetes.Interface, error) {
	cfg, err := c.restConfig()
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = c.QPS, c.Burst
	// Smaller than JSON, and opaque parameters come and go byte for byte: who writes a
	// claim's status must not change its allocation, not even the white space in it.
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make Kubernetes client: %w", err)
	}
	return client, nil
}

func (c *Config) restConfig() (*rest.Config, error) {
	if c.Kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("connect to the API server from inside a pod (outside, use --kubeconfig): %w", err)
		}
		return cfg, nil
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	return cfg, nil
}
