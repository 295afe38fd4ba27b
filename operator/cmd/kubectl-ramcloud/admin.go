package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"ramcloud.dev/client/adminpb"
	ramcloudv1 "ramcloud.dev/operator/api/v1alpha1"
	"ramcloud.dev/operator/internal/specs"
)

// admin calls use with the admin API of the cluster's coordinators, through a forwarded port. It tries all
// coordinators, because only the leader accepts calls.
func (p *plugin) admin(ctx context.Context, c *ramcloudv1.RAMCloudCluster, use func(adminpb.AdminClient) error) error {
	var errs []error
	for index := range specs.WantedCoordinators(c) {
		err := p.adminOf(ctx, c.Namespace, specs.CoordinatorName(c.Name, index), use)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("coordinator %d: %w", index, err))
	}
	return errors.Join(errs...)
}

func (p *plugin) adminOf(ctx context.Context, namespace, pod string, use func(adminpb.AdminClient) error) error {
	address, stop, err := p.forward(ctx, namespace, pod, specs.CoordinatorAdminPort)
	if err != nil {
		return err
	}
	defer stop()
	connection, err := dial(address)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	return use(adminpb.NewAdminClient(connection))
}

// maxAnswer bounds one answer: the tables of a large cluster are the largest.
const maxAnswer = 64 << 20

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
}

// forward opens a local port that is forwarded to a pod's port.
func (p *plugin) forward(ctx context.Context, namespace, pod string, port int) (address string, stop func(), err error) {
	transport, upgrader, err := spdy.RoundTripperFor(p.config)
	if err != nil {
		return "", nil, err
	}
	target, err := url.Parse(strings.TrimSuffix(p.config.Host, "/"))
	if err != nil {
		return "", nil, err
	}
	if target.Scheme == "" {
		target = &url.URL{Scheme: "https", Host: p.config.Host}
	}
	target.Path += fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/portforward", namespace, pod)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	stopped, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)},
		stopped, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		return "", nil, fmt.Errorf("forwarding a port to pod %s: %w", pod, err)
	case <-ctx.Done():
		close(stopped)
		return "", nil, fmt.Errorf("forwarding a port to pod %s: %w", pod, ctx.Err())
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		close(stopped)
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), func() { close(stopped) }, nil
}
