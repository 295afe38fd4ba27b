// Package local runs real clusters of processes on this machine, and kills, stops, damages and floods them.
// The programs are those of `make build` (RAMCLOUD_BIN_DIR names another folder).
package local

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ramcloud.dev/client"
	"ramcloud.dev/client/testing/freeport"
)

// limit bounds every wait for a condition; reaching it fails the test, and is never a measurement.
const limit = 60 * time.Second

// program is the path of one of the built programs.
func program(t *testing.T, name string) string {
	folder := os.Getenv("RAMCLOUD_BIN_DIR")
	if folder == "" {
		folder = "../../build/bin"
	}
	path, err := filepath.Abs(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; `make build` builds it, or RAMCLOUD_BIN_DIR names its folder", err)
	}
	return path
}

// freePorts finds a port p so that p and the ports `ramcloudd dev` derives from it for so many servers are free.
func freePorts(t *testing.T, servers int) int {
	t.Helper()
	offsets := []int{1, 2}
	for i := 1; i <= servers; i++ {
		offsets = append(offsets, 10*i, 10*i+2)
	}
	base, err := freeport.Base(offsets...)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// output collects what a process writes, for two writers and readers at once.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

// process is a daemon that a test started.
type process struct {
	command *exec.Cmd
	log     *output
	ended   chan struct{} // closed when Wait has returned
	err     error         // of Wait; read after ended
}

func (p *process) pid() int { return p.command.Process.Pid }

// start runs a program that ends with the test; lines gets the lines of its standard output.
func start(t *testing.T, path string, arguments []string, lines func(string)) *process {
	return startWith(t, path, arguments, nil, lines)
}

// startWith does the same with more environment variables.
func startWith(t *testing.T, path string, arguments, environment []string, lines func(string)) *process {
	p := &process{command: exec.Command(path, arguments...), log: &output{}, ended: make(chan struct{})}
	reader, writer := io.Pipe()
	p.command.Stdout, p.command.Stderr = io.MultiWriter(writer, p.log), p.log
	p.command.Env = append(os.Environ(), environment...)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			lines(scanner.Text())
		}
		_, _ = io.Copy(io.Discard, reader)
	}()
	go func() {
		p.err = p.command.Wait()
		_ = writer.Close()
		close(p.ended)
	}()
	return p
}

// daemon is an entry of processes.json, or a process that the test started in its place.
type daemon struct {
	Role  string
	Name  string
	PID   int
	Ports struct{ RPC, Admin, HTTP int }
	Dir   string

	arguments   []string // of its command line, without the program
	program     string   // empty: the one that users run
	environment []string // what is added to it
}

// cluster is a running `ramcloudd dev --processes`.
type cluster struct {
	t       *testing.T
	dir     string
	address string
	dev     *process
	daemons []*daemon
	extra   []*process // restarted by hand
	pids    []int      // all processes, ended ones too
}

// startCluster starts servers and a coordinator and waits until they are ready. When the test ends,
// all of them are stopped and checked to be gone.
func startCluster(t *testing.T, servers int, flags ...string) *cluster {
	t.Helper()
	base := freePorts(t, servers)
	c := &cluster{t: t, dir: t.TempDir(), address: fmt.Sprintf("127.0.0.1:%d", base)}
	arguments := append([]string{"dev", "--servers", fmt.Sprint(servers), "--dir", c.dir,
		"--listen", c.address, "--processes"}, flags...)
	if !slices.Contains(flags, "--log-memory") {
		arguments = append(arguments, "--log-memory", "64MiB")
	}
	ready := make(chan struct{})
	c.dev = start(t, program(t, "ramcloudd"), arguments, func(line string) {
		if strings.HasPrefix(line, "ready: ") {
			close(ready)
		}
	})
	c.pids = append(c.pids, c.dev.pid())
	t.Cleanup(c.stop)
	select {
	case <-ready:
	case <-c.dev.ended:
		t.Fatalf("the cluster ended: %v\n%s", c.dev.err, c.dev.log)
	case <-time.After(2 * limit):
		t.Fatalf("the cluster did not become ready\n%s", c.dev.log)
	}
	bytes, err := os.ReadFile(filepath.Join(c.dir, "processes.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(bytes, &c.daemons); err != nil {
		t.Fatal(err)
	}
	if len(c.daemons) != servers+1 {
		t.Fatalf("processes.json lists %d processes, want %d", len(c.daemons), servers+1)
	}
	for _, d := range c.daemons {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", d.PID))
		if err != nil {
			t.Fatal(err)
		}
		d.arguments = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")[1:]
		c.pids = append(c.pids, d.PID)
	}
	return c
}

func (c *cluster) coordinator() *daemon { return c.daemons[0] }
func (c *cluster) servers() []*daemon   { return c.daemons[1:] }

// kill -9, without waiting: the parent process waits for it.
func (c *cluster) kill(d *daemon) {
	c.t.Helper()
	if err := syscall.Kill(d.PID, syscall.SIGKILL); err != nil {
		c.t.Fatalf("kill -9 of %s: %v", d.Name, err)
	}
	c.eventually("the end of "+d.Name, func() bool { return !alive(d.PID) })
	// Its first thread may have ended before the others release its ports.
	for _, p := range c.extra {
		if p.pid() == d.PID {
			<-p.ended
		}
	}
}

// killAll ends everything at once, the parent included.
func (c *cluster) killAll() {
	c.t.Helper()
	for _, pid := range c.pids {
		if alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for _, pid := range c.pids {
		c.eventually(fmt.Sprintf("the end of process %d", pid), func() bool { return !alive(pid) })
	}
}

// restart starts a killed daemon again with the arguments it had.
func (c *cluster) restart(d *daemon) *process {
	c.t.Helper()
	path := d.program
	if path == "" {
		path = program(c.t, "ramcloudd")
	}
	p := startWith(c.t, path, d.arguments, d.environment, func(string) {})
	d.PID = p.pid()
	c.extra = append(c.extra, p)
	c.pids = append(c.pids, p.pid())
	return p
}

// stop asks all processes to end, and fails the test if one does not.
func (c *cluster) stop() {
	if c.t.Failed() {
		text := c.dev.log.String()
		c.t.Logf("the end of the daemons' log:\n%s", text[max(0, len(text)-6000):])
		for _, p := range c.extra {
			text := p.log.String()
			c.t.Logf("the end of the log of process %d:\n%s", p.pid(), text[max(0, len(text)-6000):])
		}
	}
	for _, p := range append(c.extra, c.dev) {
		_ = p.command.Process.Signal(syscall.SIGTERM)
	}
	for _, p := range append(c.extra, c.dev) {
		select {
		case <-p.ended:
		case <-time.After(limit):
			c.t.Errorf("process %d did not end within %s after SIGTERM:\n%s", p.pid(), limit, p.log)
			for _, pid := range c.pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	for _, pid := range c.pids {
		for deadline := time.Now().Add(limit); alive(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				c.t.Errorf("process %d is still there", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}

// alive: it exists, and is not a zombie whose threads have all ended. One that the kernel keeps in a sync ends later
// than the others, and holds their sockets until then.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
		return true
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && len(threads) > 1
}

func (c *cluster) eventually(what string, condition func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s did not come within %s", what, limit)
		}
	}
}

func (c *cluster) client() *client.Client {
	c.t.Helper()
	made, err := client.Connect(c.address)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(made.Close)
	return made
}

func (c *cluster) table(of *client.Client, name string, span uint32) *client.Table {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	table, err := of.CreateTable(ctx, name, span)
	if err != nil {
		c.t.Fatalf("create table %s: %v", name, err)
	}
	return table
}

// status is the JSON of `ramcloud status`.
type status struct {
	Health             string
	Reasons            []string
	ServersUp          int `json:"servers_up"`
	ServersCrashed     int `json:"servers_crashed"`
	TabletsUnavailable int `json:"tablets_unavailable"`
	Objects            uint64
	Replication        struct {
		AllSegmentsReplicated bool   `json:"all_segments_replicated"`
		SegmentsDegraded      uint64 `json:"segments_degraded"`
		MastersWaiting        int    `json:"masters_waiting"`
	}
}

func (c *cluster) status() status {
	c.t.Helper()
	var s status
	c.ask(&s, "status")
	return s
}

// serverView is a row of `ramcloud servers`.
type serverView struct {
	ID          uint64
	Name        string
	State       string
	FramesTotal uint64 `json:"backup_frames_total"`
	FramesUsed  uint64 `json:"backup_frames_used"`
	Quarantined uint64 `json:"backup_frames_quarantined"`
}

// serverViews gives the servers by name; of several incarnations the youngest.
func (c *cluster) serverViews() map[string]serverView {
	c.t.Helper()
	var list []serverView
	c.ask(&list, "servers")
	byName := map[string]serverView{}
	for _, view := range list {
		if view.ID >= byName[view.Name].ID {
			byName[view.Name] = view
		}
	}
	return byName
}

func (c *cluster) ask(into any, command string) {
	c.t.Helper()
	r := run(c.t, "ramcloud", "--cluster", c.address, "-o", "json", command)
	if r.code != 0 {
		c.t.Fatalf("ramcloud %s: exit code %d: %s", command, r.code, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		c.t.Fatalf("ramcloud %s: %v in %q", command, err, r.stdout)
	}
}

// result is a program's output and exit code.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a program to its end.
func run(t *testing.T, name string, arguments ...string) result {
	t.Helper()
	return runPath(t, program(t, name), arguments...)
}

func runPath(t *testing.T, path string, arguments ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, path, arguments...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%s %v: %v (%v)\n%s", path, arguments, err, ctx.Err(), stderr.String())
	}
	return result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
