package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"ramcloud.dev/client/adminpb"
	"ramcloud.dev/client/testing/freeport"
)

// TestAgainstTheDaemon runs a real cluster of one process and does everything with it.
func TestAgainstTheDaemon(t *testing.T) {
	binary := os.Getenv("RAMCLOUDD_BIN")
	if binary == "" {
		t.Skip("SKIP: RAMCLOUDD_BIN is not set; make build leaves build/bin/ramcloudd, set it to that path")
	}
	address := startDaemon(t, binary)
	c := connect(t, address)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	table, err := c.CreateTable(ctx, "go", 3)
	want(t, err, OK)
	if len(table.Tablets) != 3 {
		t.Fatalf("%d tablets, want 3", len(table.Tablets))
	}
	const n = 2000
	values := map[string]string{}
	var last uint64
	for i := range n {
		key, value := fmt.Sprintf("key %d", i), strings.Repeat(itoa(i), i%50)
		version, err := c.Write(ctx, table.ID, []byte(key), []byte(value))
		want(t, err, OK)
		values[key], last = value, version
	}
	if last == 0 {
		t.Error("a version is 0")
	}
	for key, value := range values {
		got, _, err := c.Read(ctx, table.ID, []byte(key))
		want(t, err, OK)
		if string(got) != value {
			t.Fatalf("%s is %q, want %q", key, got, value)
		}
	}
	seen := 0
	want(t, c.Enumerate(ctx, table.ID, func(o Object) error {
		if value, ok := values[string(o.Key)]; !ok || value != string(o.Value) {
			t.Errorf("enumerated %q = %q", o.Key, o.Value)
		}
		seen++
		return nil
	}), OK)
	if seen != n {
		t.Errorf("enumerated %d of %d", seen, n)
	}
	big := bytes.Repeat([]byte{7}, 1<<20)
	first, err := c.Write(ctx, table.ID, []byte("big"), big)
	want(t, err, OK)
	got, version, err := c.Read(ctx, table.ID, []byte("big"))
	want(t, err, OK)
	if !bytes.Equal(got, big) || version != first {
		t.Errorf("a large value: %d bytes, version %d, want %d", len(got), version, first)
	}
	_, err = c.Write(ctx, table.ID, []byte("big"), nil, Conditions{Flags: IfVersionNotEqual, Version: first + 1})
	want(t, err, WrongVersion)
	_, err = c.Write(ctx, table.ID, []byte("big"), nil, Conditions{Flags: IfExists})
	want(t, err, Exists)
	deleted, err := c.Delete(ctx, table.ID, []byte("big"))
	want(t, err, OK)
	if deleted != first {
		t.Errorf("deleted version %d, want %d", deleted, first)
	}
	_, _, err = c.Read(ctx, table.ID, []byte("big"))
	want(t, err, NotFound)
	again, err := c.Write(ctx, table.ID, []byte("big"), nil)
	want(t, err, OK)
	if again <= first {
		t.Errorf("the version fell from %d to %d across a delete", first, again)
	}
	checkAdmin(ctx, t, c)
	want(t, c.DropTable(ctx, "go"), OK)
	_, err = c.GetTable(ctx, "go")
	want(t, err, NotFound)
}

// checkAdmin finds the admin API through the data API and reads a snapshot of its watch stream.
func checkAdmin(ctx context.Context, t *testing.T, c *Client) {
	info, err := c.Info(ctx)
	want(t, err, OK)
	connection, err := grpc.NewClient("passthrough:///"+info.AdminAddress, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	stream, err := adminpb.NewAdminClient(connection).Watch(ctx, &adminpb.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	servers, tables, status := 0, 0, false
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatalf("admin API at %s: %v", info.AdminAddress, err)
		}
		switch e := event.Event.(type) {
		case *adminpb.WatchEvent_Server:
			if e.Server.State == adminpb.ServerState_SERVER_UP {
				servers++
			}
		case *adminpb.WatchEvent_Table:
			tables++
		case *adminpb.WatchEvent_Status:
			status = true
		case *adminpb.WatchEvent_SnapshotComplete:
			if servers != 3 || tables != 1 || !status {
				t.Errorf("snapshot: %d servers up, %d tables, status %t; want 3, 1, true", servers, tables, status)
			}
			return
		}
	}
}

func startDaemon(t *testing.T, binary string) string {
	// What `ramcloudd dev` derives for three servers.
	base, err := freeport.Base(1, 2, 10, 12, 20, 22, 30, 32)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", base)
	daemon := exec.Command(binary, "dev", "--servers", "3", "--dir", t.TempDir(), "--listen", address, "--log-memory", "64MiB")
	daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	daemon.Stderr = &stderr
	stdout, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "ready") {
				close(ready)
			}
		}
		close(ended)
	}()
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := daemon.Wait(); err != nil {
			t.Errorf("the daemon did not end in good order: %v\n%s", err, stderr.String())
		}
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("the daemon ended: %s", stderr.String())
	case <-time.After(time.Minute):
		t.Fatal("the daemon did not become ready")
	}
	return address
}
