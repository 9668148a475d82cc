package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// request is what a command asks of the daemon.
type request struct {
	method, path string
	// body is sent as JSON; nil is nothing.
	body any
	// stream tells that lines come until somebody interrupts.
	stream bool
}

func get(path string) request { return request{method: http.MethodGet, path: path} }

func post(path string, body any) request {
	return request{method: http.MethodPost, path: path, body: body}
}

func remove(path string) request { return request{method: http.MethodDelete, path: path} }

// send asks and prints the answer.
func (r request) send(ctx context.Context, root string, stdout io.Writer) error {
	var body bytes.Buffer
	if r.body != nil {
		if err := json.NewEncoder(&body).Encode(r.body); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", controlPath(root))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, r.method, "http://simulator"+r.path, &body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("reach the simulator of %s (is cleave-simhw serve running with this --root?): %w", root, err)
	}
	defer resp.Body.Close()
	if r.stream && resp.StatusCode == http.StatusOK {
		return follow(ctx, stdout, resp.Body)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the simulator's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the simulator refuses: %s", bytes.TrimSpace(answer))
	}
	var out bytes.Buffer
	if err := json.Indent(&out, answer, "", "  "); err != nil {
		return fmt.Errorf("decode the simulator's answer: %w", err)
	}
	_, err = out.WriteTo(stdout)
	return err
}

// follow copies lines as they come; an interruption is a normal end.
func follow(ctx context.Context, stdout io.Writer, lines io.Reader) error {
	_, err := io.Copy(stdout, lines)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("follow the simulator: %w", err)
	}
	return fmt.Errorf("follow the simulator: it has ended: %w", io.ErrUnexpectedEOF)
}
