package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ramcloud.dev/client"
)

// The failpoints that a recovery master passes, in this order, and those that backups pass. Those of the
// first list are tried in every run.
var (
	usualServerPoints = []string{"master.recovery.page_replayed", "master.recovery.committed", "master.recovery.ready",
		"master.recovery.served", "backup.recovery.frozen"}
	moreServerPoints = []string{"master.recovery.begun", "master.recovery.page_fetched", "log.side_segment.opened",
		"master.recovery.before_close", "master.recovery.before_commit", "master.recovery.before_serve",
		"backup.recovery.before_query_answer", "backup.recovery.before_fetch_answer"}
	usualCoordinatorPoints = []string{"coordinator.recovery.before_serve", "coordinator.recovery.attempt_recorded",
		"coordinator.recovery.handed_over"}
	moreCoordinatorPoints = []string{"coordinator.recovery.served", "coordinator.recovery.begun",
		"coordinator.recovery.before_query", "coordinator.recovery.log_found", "coordinator.recovery.before_order",
		"coordinator.recovery.ready", "coordinator.recovery.before_hand_over"}
)

// soak says whether to try everything, however long it takes.
func soak() bool { return os.Getenv("RAMCLOUD_SOAK") != "" }

// onlyInSoak leaves out what takes a minute or two of two cores.
func onlyInSoak(t *testing.T) {
	t.Helper()
	if !soak() {
		t.Skip("this takes minutes: `make soak PARTS=processes` runs it")
	}
}

// pointsOf divides the failpoints into groups; each group is tried in a cluster of its own.
func pointsOf(usual, more []string, groups int) [][]string {
	all := usual
	if soak() {
		all = append(slices.Clone(usual), more...)
	}
	shared := make([][]string, groups)
	for i, point := range all {
		shared[i%groups] = append(shared[i%groups], point)
	}
	return shared
}

// ended kills a daemon if it runs, and waits until its ports are free: the ports of a process that is not a
// child of the test may stay in use for a moment after it has ended.
func (c *cluster) ended(d *daemon) {
	c.t.Helper()
	if alive(d.PID) {
		c.kill(d)
	}
	for _, port := range []int{d.Ports.RPC, d.Ports.HTTP} {
		c.eventually(fmt.Sprintf("port %d", port), func() bool {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				_ = listener.Close()
			}
			return err == nil
		})
	}
}

// armed starts a daemon, again if it runs, as a test build that kills itself at a place.
func (c *cluster) armed(d *daemon, failpoint string) *process {
	c.t.Helper()
	c.ended(d)
	d.program, d.environment = testBuild(c.t, "bin/ramcloudd"), []string{"RAMCLOUD_FAILPOINTS=" + failpoint + "=kill"}
	return c.restart(d)
}

// asUsual starts a dead daemon with the program that users run.
func (c *cluster) asUsual(d *daemon) {
	c.t.Helper()
	d.program, d.environment = "", nil
	c.ended(d)
	c.restart(d)
}

// endsAt waits until one of several processes has killed itself at a failpoint.
func (c *cluster) endsAt(p *process, failpoint string) {
	c.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		c.t.Fatalf("the failpoint %s was not reached within %s\n%s", failpoint, limit, p.log)
	}
	if !strings.Contains(p.log.String(), "failpoint.reached") {
		c.t.Fatalf("the process ended by itself, not at %s: %v\n%s", failpoint, p.err, p.log)
	}
}

// wholeAgain waits until so many servers are up and everything is served and replicated.
func (c *cluster) wholeAgain(servers int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("a whole cluster of %d servers", servers), func() bool {
		s := c.status()
		return s.ServersUp == servers && s.TabletsUnavailable == 0 && s.Replication.AllSegmentsReplicated
	})
}

// A recovery master or a backup dies at each step of a recovery, and the data is served all the same. Then
// again, after objects were deleted: none of them comes back.
func TestServersDieWhileTheyRecover(t *testing.T) {
	t.Parallel()
	for i, points := range pointsOf(usualServerPoints, moreServerPoints, 2) {
		t.Run(fmt.Sprintf("group %d", i), func(t *testing.T) {
			t.Parallel()
			const servers = 4
			c := startCluster(t, servers, "--replicas", "2", "--log-memory", "256MiB")
			of := c.client()
			l := startLoadAt(t, of, c.table(of, "load", servers), 2*pace)
			doomed := c.table(of, "doomed", servers)
			const objects = 200
			for i := range objects {
				write(c, of, doomed, fmt.Sprint(i), "there")
			}
			l.more(1000)
			for _, point := range points {
				c.dieAt(point, servers, l)
			}
			for i := range objects {
				c.deletes(of, doomed, fmt.Sprint(i), "there")
			}
			again := points
			if !soak() {
				again = points[:1]
			}
			for _, point := range again {
				c.dieAt(point, servers, l)
			}
			l.finish()
			l.verify()
			for i := range objects {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				value, _, err := of.Read(ctx, doomed.ID, []byte(fmt.Sprint(i)))
				cancel()
				if !errors.Is(err, client.NotFound) {
					t.Errorf("object %d was deleted; now it is %q (%v)", i, value, err)
				}
			}
		})
	}
}

// deletes an object that has this value.
func (c *cluster) deletes(of *client.Client, table *client.Table, key, value string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	found, _, err := of.Read(ctx, table.ID, []byte(key))
	if err != nil || string(found) != value {
		c.t.Fatalf("object %s is %q (%v), want %q", key, found, err, value)
	}
	if _, err := of.Delete(ctx, table.ID, []byte(key)); err != nil {
		c.t.Fatalf("delete of %s: %v", key, err)
	}
}

// dieAt lets one server die at a place while it helps to recover another.
func (c *cluster) dieAt(point string, servers int, l *load) {
	c.t.Helper()
	for range 20 { // a backup does not always have what is fetched first
		victim := c.anOwner("load")
		helper := c.servers()[0]
		if helper == victim {
			helper = c.servers()[1]
		}
		if !strings.HasPrefix(point, "backup.") {
			c.hasNothing(helper, l.client)
		}
		p := c.armed(helper, point)
		c.wholeAgain(servers)
		killed := time.Now()
		c.kill(victim)
		reached := c.passes(p, point, l)
		c.asUsual(helper)
		c.eventually("tablets that are all available", func() bool { return c.status().TabletsUnavailable == 0 })
		c.t.Logf("%s: %.2f s until every tablet had an owner", point, time.Since(killed).Seconds())
		c.asUsual(victim)
		c.wholeAgain(servers)
		l.more(300)
		if reached {
			return
		}
	}
	c.t.Fatalf("the failpoint %s was not reached", point)
}

// hasNothing ends a server and waits until others, which all have some data, serve its tablets. Started again,
// it has the most memory free, so a plan gives it the first part.
func (c *cluster) hasNothing(server *daemon, of *client.Client) {
	c.t.Helper()
	const name = "some data of each server"
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := of.DropTable(ctx, name); err != nil && !errors.Is(err, client.NotFound) {
		c.t.Fatalf("drop table %q: %v", name, err)
	}
	servers := len(c.servers())
	table := c.table(of, name, uint32(servers))
	for i := range 100 {
		write(c, of, table, fmt.Sprint(i), strings.Repeat("x", 1000))
	}
	c.ended(server)
	c.eventually("others that serve what it had", func() bool {
		s := c.status()
		return s.ServersUp == servers-1 && s.TabletsUnavailable == 0
	})
}

// passes waits until a process has killed itself at a place. False: other processes did the work.
func (c *cluster) passes(p *process, point string, l *load) bool {
	c.t.Helper()
	ended := func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	}
	c.eventually("its end, or that of the recovery", func() bool {
		if ended() {
			return true
		}
		s := c.status()
		return s.ServersUp < len(c.servers()) && s.TabletsUnavailable == 0
	})
	if !ended() {
		l.more(100) // an owner in the metadata may not serve yet
	}
	if ended() {
		c.endsAt(p, point)
		return true
	}
	return false
}

// attempts counts the log lines of coordinators about attempts to recover a server.
func attempts(processes []*process, master uint64) int {
	count := 0
	for _, p := range processes {
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, "recovery.attempt ") && strings.Contains(line, fmt.Sprintf("master=%d ", master)) {
				count++
			}
		}
	}
	return count
}

// The leader dies at each step of a recovery; the next one continues, and dies at the same step, until no
// coordinator has that failpoint. Each death costs one attempt at most.
func TestLeadersDieWhileTheyRecover(t *testing.T) {
	t.Parallel()
	more := slices.Concat(usualCoordinatorPoints[:2], moreCoordinatorPoints)
	for _, point := range pointsOf(usualCoordinatorPoints[2:], more, 1)[0] {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			var armed []*daemon
			r := startReplicatedWith(t, func(r *replicated, i int, d *daemon) {
				if d.Role == "coordinator" {
					d.program, d.environment = testBuild(t, "bin/ramcloudd"), []string{"RAMCLOUD_FAILPOINTS=" + point + "=kill"}
					armed = append(armed, d)
				}
			})
			of := r.client()
			table := r.table(of, "load", 3)
			l := r.pacedLoad(of, table)
			l.more(500)
			victim, _ := r.holderOf(table.Tablets[0].ServerID)
			lost := r.serverViews()[victim.Name].ID
			killed := time.Now()
			r.kill(victim)
			r.restart(victim) // two servers have no room for two replicas
			deaths := 0
			r.eventually("the deaths of all leaders, or the end of the recovery", func() bool {
				armed = slices.DeleteFunc(armed, func(d *daemon) bool {
					if alive(d.PID) {
						return false
					}
					deaths++
					r.asUsual(d)
					return true
				})
				return deaths > 0 && r.available()
			})
			t.Logf("%s: %d leaders died; %.2f s until every tablet had an owner", point, deaths, time.Since(killed).Seconds())
			l.more(500)
			l.finish()
			l.verify()
			if n := attempts(r.extra, lost); n > 1+deaths {
				t.Errorf("%d attempts after %d deaths", n, deaths)
			}
			checkHistory(t, r.etcd.history(etcdPrefix), etcdPrefix)
		})
	}
}

// The only coordinator dies at each step of a recovery, and is started again.
func TestTheCoordinatorDiesWhileItRecovers(t *testing.T) {
	t.Parallel()
	for i, points := range pointsOf(usualCoordinatorPoints, moreCoordinatorPoints, 2) {
		// A coordinator that starts sends the orders to serve again, if there was a recovery before.
		slices.SortStableFunc(points, func(a, b string) int {
			return strings.Index(b, "serve") - strings.Index(a, "serve")
		})
		t.Run(fmt.Sprintf("group %d", i), func(t *testing.T) {
			t.Parallel()
			const servers = 4
			c := startCluster(t, servers, "--replicas", "2", "--log-memory", "256MiB")
			of := c.client()
			l := startLoadAt(t, of, c.table(of, "load", servers), 2*pace)
			l.more(1000)
			for _, point := range points {
				c.coordinatorDiesAt(point, servers)
				l.more(300)
			}
			l.finish()
			l.verify()
		})
	}
}

// available: every tablet is on a server that is up, as far as a coordinator answers.
func (c *cluster) available() bool {
	asked := run(c.t, "ramcloud", "--cluster", c.address, "--timeout", "5s", "-o", "json", "status")
	return asked.code == 0 && strings.Contains(asked.stdout, `"tablets_unavailable":0`)
}

func (c *cluster) coordinatorDiesAt(point string, servers int) {
	c.t.Helper()
	p := c.armed(c.coordinator(), point)
	c.eventually("the coordinator", c.available)
	c.wholeAgain(servers)
	victim := c.anOwner("load")
	lost := c.serverViews()[victim.Name].ID
	killed := time.Now()
	c.kill(victim)
	c.endsAt(p, point)
	c.asUsual(c.coordinator())
	after := c.extra[len(c.extra)-1]
	c.eventually("tablets that are all available", c.available)
	c.t.Logf("%s: %.2f s until every tablet had an owner", point, time.Since(killed).Seconds())
	if n := attempts([]*process{p, after}, lost); n > 2 {
		c.t.Errorf("%s: %d attempts after one death", point, n)
	}
	c.asUsual(victim)
	c.wholeAgain(servers)
}

// A scan that begins before a server dies, and ends after others serve its tablets, returns every key once.
func TestAScanAcrossARecoveryGivesEachKeyOnce(t *testing.T) {
	t.Parallel()
	const keys = 4000
	c := startCluster(t, 4, "--replicas", "2")
	of := c.client()
	table := c.table(of, "scanned", 4)
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := w; i < keys; i += 8 {
				if _, err := of.Write(ctx, table.ID, fmt.Appendf(nil, "key %d", i), make([]byte, 2000)); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		}()
	}
	writers.Wait()
	times := map[string]int{}
	err := of.Enumerate(ctx, table.ID, func(o client.Object) error {
		times[string(o.Key)]++
		// One page of the first tablet has been returned; any server may have the others.
		if len(times) == 100 {
			victim := c.anOwner("scanned")
			for id := range c.owners("scanned") {
				if id != table.Tablets[0].ServerID {
					victim = c.byID(id)
				}
			}
			c.kill(victim)
		}
		// The owner of the tablet that the scan is in.
		if len(times) == keys/2 {
			c.wholeAgain(3)
			c.kill(c.anOwner("scanned"))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("enumerate: %v", err)
	}
	for key, n := range times {
		if n != 1 {
			t.Errorf("%q came %d times", key, n)
		}
	}
	if len(times) != keys {
		t.Errorf("%d keys came, of %d", len(times), keys)
	}
	scanned := run(t, "ramcloud", "--cluster", c.address, "--timeout", "50s", "scan", "scanned", "--count")
	if scanned.code != 0 || strings.TrimSpace(scanned.stdout) != fmt.Sprint(keys) {
		t.Errorf("ramcloud scan --count: exit code %d: %q %s", scanned.code, scanned.stdout, scanned.stderr)
	}
}

// waiters write one key each, with a pause after each answer, and record the longest time without an answer.
type waiters struct {
	stop    context.CancelFunc
	writers sync.WaitGroup
	longest atomic.Int64
}

func startWaiters(t *testing.T, of *client.Client, table *client.Table, writers int) *waiters {
	ctx, cancel := context.WithCancel(context.Background())
	g := &waiters{stop: cancel}
	for w := range writers {
		g.writers.Add(1)
		go func() {
			defer g.writers.Done()
			for last := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				call, end := context.WithTimeout(ctx, limit)
				_, err := of.Write(call, table.ID, fmt.Appendf(nil, "probe %d", w), []byte("x"))
				end()
				switch {
				case err == nil:
					gap := int64(time.Since(last))
					for known := g.longest.Load(); gap > known && !g.longest.CompareAndSwap(known, gap); known = g.longest.Load() {
					}
					last = time.Now()
				case ctx.Err() == nil && !errors.Is(err, client.Indeterminate):
					t.Errorf("write: %v", err)
					return
				}
			}
		}()
	}
	return g
}

func (g *waiters) finish() time.Duration {
	g.stop()
	g.writers.Wait()
	return time.Duration(g.longest.Load())
}

// readAll reads every key of a load, many at once; it returns how long it took until the first key that was
// unavailable was read, and until all were.
func (c *cluster) readAll(l *load, keys []string) (first, all time.Duration) {
	c.t.Helper()
	begun := time.Now()
	var mutex sync.Mutex
	var readers sync.WaitGroup
	for r := range 32 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			for i := r; i < len(keys); i += 32 {
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				asked := time.Now()
				_, _, err := l.client.Read(ctx, l.table.ID, []byte(keys[i]))
				cancel()
				if err != nil && !errors.Is(err, client.NotFound) {
					c.t.Errorf("read %q: %v", keys[i], err)
				}
				mutex.Lock()
				if time.Since(asked) > 100*time.Millisecond && (first == 0 || time.Since(begun) < first) {
					first = time.Since(begun)
				}
				all = max(all, time.Since(begun))
				mutex.Unlock()
			}
		}()
	}
	readers.Wait()
	return first, all
}

// One of five servers is killed under load, again and again. How long clients wait is printed.
func TestOneOfFiveServersIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const servers = 5
	runs := 1
	if soak() {
		runs = 20
	}
	for n := range runs {
		c := startCluster(t, servers, "--replicas", "3")
		of := c.client()
		l := startLoad(t, of, c.table(of, "load", servers))
		g := startWaiters(t, c.client(), l.table, 40)
		l.more(3000)
		var keys []string
		for w := range loadWriters {
			for k := range keysPerWriter {
				keys = append(keys, fmt.Sprintf("writer %d key %d", w, k))
			}
		}
		c.kill(c.anOwner("load"))
		first, all := c.readAll(l, keys)
		c.eventually("tablets that are all available", func() bool { return c.status().TabletsUnavailable == 0 })
		l.more(1000)
		t.Logf("run %d: first key after %.2f s, all after %.2f s; the longest that a writer waited: %.2f s", n,
			first.Seconds(), all.Seconds(), g.finish().Seconds())
		l.finish()
		l.verify()
		c.killAll()
	}
}
