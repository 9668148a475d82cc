package node

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registration sees the kubelet's word on the registration pass by.
func (p *Plugin) registration(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if status, ok := req.(*registerapi.RegistrationStatus); ok {
		p.ready.register(status.PluginRegistered)
	}
	return handler(ctx, req)
}

// Healthy is nil when the plugin's socket answers as the kubelet would be
// answered: an empty call goes through all of it but the claims.
func (p *Plugin) Healthy(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+p.cfg.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", p.cfg.Socket(), err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := drapb.NewDRAPluginClient(conn).NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{}); err != nil {
		return fmt.Errorf("call %s: %w", p.cfg.Socket(), err)
	}
	return nil
}
