package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const ctlUsage = `Usage: cleave-simhw ctl COMMAND --root DIR
  list                                           the state as JSON
  reboot                                         what a reboot of the node does to the GPUs
  mig --gpu N --enabled=BOOL                     switch MIG mode
  create-instance --gpu N --profile P --start S  make a MIG device that no claim knows of
  destroy-instance --gpu N --id GI               remove a GPU instance with what is in it
` + healthUsage

// ctlCommand asks the daemon, or changes the hardware behind its clients' backs.
func ctlCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fmt.Fprint(stderr, ctlUsage)
		return errUsage
	}
	if command, ok := healthCommands[args[0]]; ok {
		return command(ctx, args, stdout, stderr)
	}
	fs := flag.NewFlagSet("cleave-simhw ctl "+args[0], flag.ContinueOnError)
	fs.SetOutput(stderr)
	root := fs.String("root", "", "driver root `directory` of the simulated node (required)")
	gpu := fs.Int("gpu", 0, "`index` of the GPU")
	profile := fs.String("profile", "", "`name` of the MIG profile, for example 1g.10gb")
	start := fs.Int("start", 0, "first memory `slice`")
	id := fs.Int("id", 0, "GPU instance `id`")
	enabled := fs.Bool("enabled", true, "the MIG mode to set")
	if err := fs.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if *root == "" {
		return errors.New("flag --root is required")
	}
	method, path, form := http.MethodPost, "", url.Values{}
	switch args[0] {
	case "list":
		method, path = http.MethodGet, "/state"
	case "reboot":
		path = "/reboot"
	case "mig":
		path = fmt.Sprintf("/gpus/%d/mig", *gpu)
		form.Set("enabled", strconv.FormatBool(*enabled))
	case "create-instance":
		path = fmt.Sprintf("/gpus/%d/instances", *gpu)
		form.Set("profile", *profile)
		form.Set("start", strconv.Itoa(*start))
	case "destroy-instance":
		method, path = http.MethodDelete, fmt.Sprintf("/gpus/%d/instances/%d", *gpu, *id)
	default:
		fmt.Fprint(stderr, ctlUsage)
		return errUsage
	}
	return ask(ctx, *root, method, path, form, stdout)
}

// ask sends a request and prints the state that comes back.
func ask(ctx context.Context, root, method, path string, form url.Values, stdout io.Writer) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", controlPath(root))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://simulator"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("reach the simulator of %s: %w", root, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the simulator's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator refuses: %s", bytes.TrimSpace(body))
	}
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return fmt.Errorf("decode the simulator's answer: %w", err)
	}
	_, err = out.WriteTo(stdout)
	return err
}
