package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ramcloud.dev/client"
)

// A server whose folder is a file system of 24 MiB takes as many replicas as fit. The cluster goes on, and
// the status names the full server.
func TestAFullDiskIsNamedAndLeftAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: a small file system can only be mounted by root")
	}
	c := startCluster(t, 4, "--replicas", "2", "--backup-size", "256MiB")
	// Server 4 starts again with a small disk, in a mount namespace of its own.
	small := c.servers()[3]
	c.kill(small)
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	folder := t.TempDir()
	arguments := replaceFlag(small.arguments, "--dir", folder)
	p := start(t, "/usr/bin/unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs -o size=24m none "$0" && exec "$@"`, folder, program(t, "ramcloudd")}, arguments...), func(string) {})
	small.PID = p.pid()
	c.extra = append(c.extra, p)
	c.pids = append(c.pids, p.pid())
	c.eventually("the small server", func() bool { return c.status().ServersUp == 4 })

	of := c.client()
	l := startLoad(t, of, c.table(of, "load", 4))
	c.fill(of, c.table(of, "filler", 4), 64<<20)
	c.eventually("the full disk in the status", func() bool {
		return strings.Contains(strings.Join(c.status().Reasons, "\n"), "its backup takes no replicas, the device is full")
	})
	l.more(2000)
	l.finish()
	l.verify()
	if c.status().ServersUp != 4 {
		t.Errorf("%d servers are up", c.status().ServersUp)
	}
}

// fill writes so many bytes in large values.
func (c *cluster) fill(of *client.Client, table *client.Table, size int) {
	c.t.Helper()
	value := bytes.Repeat([]byte("f"), 1<<20)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for i := range size / len(value) {
		if _, err := of.Write(ctx, table.ID, fmt.Appendf(nil, "filler %d", i), value); err != nil {
			c.t.Fatal(err)
		}
	}
}

// replaceFlag gives the arguments with another value of a flag.
func replaceFlag(arguments []string, flag, value string) []string {
	changed := append([]string{}, arguments...)
	for i := range changed {
		if changed[i] == flag {
			changed[i+1] = value
		}
	}
	return changed
}

// loopDevice makes a blank block device of so many bytes.
func loopDevice(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP: a loop device can only be made by root")
	}
	file := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command("losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Skipf("SKIP: no loop device can be made here: %v: %s", err, output)
	}
	device := strings.TrimSpace(string(output))
	t.Cleanup(func() {
		if output, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v: %s", device, err, output)
		}
	})
	return device
}

// A block device instead of a folder: it is used, read by the offline tools, and refused when it is not blank.
func TestABlockDeviceHoldsReplicas(t *testing.T) {
	for _, durability := range []string{"buffered", "synced"} {
		t.Run(durability, func(t *testing.T) { holdReplicasOnADevice(t, durability) })
	}
}

func holdReplicasOnADevice(t *testing.T, durability string) {
	device := loopDevice(t, 128<<20)
	c := startCluster(t, 2, "--replicas", "1", "--durability", durability)
	// Server 2 starts again on the device; server 1's replicas go there then.
	on := c.servers()[1]
	c.kill(on)
	c.eventually("the verdict", func() bool { return c.status().ServersCrashed == 1 })
	on.arguments = replaceFlag(on.arguments, "--dir", device)
	on.Dir = device
	p := c.restart(on)
	c.eventually("the server on the device", func() bool { return c.status().ServersUp == 2 && c.whole() })
	of := c.client()
	table := c.table(of, "load", 2)
	l := startLoad(t, of, table)
	l.more(3000)
	l.finish()
	l.verify()
	c.killAll()
	<-p.ended
	dump := run(t, "ramcloud", "replica", "dump", device)
	if dump.code != 0 || !strings.Contains(dump.stdout, "of 15 frames in use, 0 problems") {
		t.Errorf("replica dump: exit code %d: %s%s", dump.code, dump.stdout, dump.stderr)
	}
	checkRebuilt(t, l, rebuild(t, c.servers()))

	// The device has other data: it is refused, and not changed.
	garbage := bytes.Repeat([]byte("not a volume "), 1000)
	file, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(garbage, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	refused := run(t, "ramcloudd", on.arguments...)
	if refused.code != 1 || !strings.Contains(refused.stderr+refused.stdout, fmt.Sprintf("%s: both superblocks are damaged", device)) {
		t.Errorf("exit code %d: %s%s", refused.code, refused.stdout, refused.stderr)
	}
}
