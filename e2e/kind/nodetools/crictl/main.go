// Command crictl has the verbs of the CRI command line that kind calls on a node (inspecti, images),
// and ps and pods for people, over containerd's CRI v1 socket.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	socket  = "unix:///run/containerd/containerd.sock"
	timeout = 30 * time.Second
	usage   = "usage: crictl inspecti IMAGE | images | ps | pods"
)

type services struct {
	images  cri.ImageServiceClient
	runtime cri.RuntimeServiceClient
}

// inspectImage prints what kind reads: .status.id and .status.repoTags.
func inspectImage(ctx context.Context, s services, out io.Writer, name string) error {
	reply, err := s.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		return err
	}
	if reply.Image == nil {
		return fmt.Errorf("no such image %q present", name)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"status": map[string]any{
		"id": reply.Image.Id, "repoTags": reply.Image.RepoTags, "repoDigests": reply.Image.RepoDigests,
	}})
}

func listImages(ctx context.Context, s services, out io.Writer) error {
	reply, err := s.images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return err
	}
	for _, image := range reply.Images {
		fmt.Fprintln(out, image.RepoTags, image.Id)
	}
	return nil
}

func listContainers(ctx context.Context, s services, out io.Writer) error {
	reply, err := s.runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	for _, c := range reply.Containers {
		pod := c.Labels["io.kubernetes.pod.namespace"] + "/" + c.Labels["io.kubernetes.pod.name"]
		fmt.Fprintf(out, "%.13s %v %s %d %s\n", c.Id, c.State, c.Metadata.Name, c.Metadata.Attempt, pod)
	}
	return nil
}

func listPods(ctx context.Context, s services, out io.Writer) error {
	reply, err := s.runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, p := range reply.Items {
		fmt.Fprintf(out, "%.13s %v %s/%s\n", p.Id, p.State, p.Metadata.Namespace, p.Metadata.Name)
	}
	return nil
}

func run(args []string, out io.Writer) error {
	connection, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s := services{cri.NewImageServiceClient(connection), cri.NewRuntimeServiceClient(connection)}
	switch {
	case len(args) == 2 && args[0] == "inspecti":
		return inspectImage(ctx, s, out, args[1])
	case len(args) == 1 && args[0] == "images":
		return listImages(ctx, s, out)
	case len(args) == 1 && args[0] == "ps":
		return listContainers(ctx, s, out)
	case len(args) == 1 && args[0] == "pods":
		return listPods(ctx, s, out)
	}
	return fmt.Errorf("%s (got %q)", usage, args)
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crictl:", err)
		os.Exit(1)
	}
}
