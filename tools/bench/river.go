// Measures River, a job queue for Go, on the work of job_queues.mjs: river URL [ROUNDS]
//
// URL is that of a PostgreSQL server of your own, in which it makes the schema `river` anew. It prints a line of JSON
// for each of ROUNDS (3) rounds, as job_queues.mjs does. A rate ends with the event of the last completion. Its modules
// are github.com/riverqueue/river v0.43.0 with its driver riverpgxv5, and github.com/jackc/pgx/v5 v5.10.0.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	schema             = "river"
	backlog, batch     = 100_000, 1000
	perSecond, seconds = 500, 5
	ahead, step        = 3 * time.Second, 100 * time.Millisecond
)

// Those of River's own `river bench`, and as many connections as graphile-worker has here.
var settings = struct{ FetchCooldownMs, FetchPollIntervalMs, MaxWorkers, MaxConns int }{2, 20, 2000, 25}

type job struct {
	Due time.Time `json:"due"`
}

func (job) Kind() string { return "job" }

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
	return value
}

// Workers call hasRun, several at once.
func open(pool *pgxpool.Pool, hasRun func(job)) *river.Client[pgx.Tx] {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, each *river.Job[job]) error {
		hasRun(each.Args)
		return nil
	}))
	return must(river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     time.Duration(settings.FetchCooldownMs) * time.Millisecond,
		FetchPollInterval: time.Duration(settings.FetchPollIntervalMs) * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: settings.MaxWorkers}},
		Schema:            schema,
		Workers:           workers,
	}))
}

func rate(ctx context.Context, pool *pgxpool.Pool) int {
	queue := open(pool, func(job) {})
	for range backlog / batch {
		must(queue.InsertManyFast(ctx, slices.Repeat([]river.InsertManyParams{{Args: job{}}}, batch)))
	}
	must(pool.Exec(ctx, "VACUUM ANALYZE"))
	completed, cancel := queue.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: backlog, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	defer cancel()
	begin := time.Now()
	must(0, queue.Start(ctx))
	for range backlog {
		<-completed
	}
	took := time.Since(begin)
	must(0, queue.Stop(ctx))
	return int(backlog / took.Seconds())
}

// From the least. The handlers measure, because no event says that a job has begun.
func lateness(ctx context.Context, pool *pgxpool.Pool) []time.Duration {
	late := make([]time.Duration, perSecond*seconds)
	var begun, ended atomic.Int64
	queue := open(pool, func(each job) {
		late[begun.Add(1)-1] = time.Since(each.Due)
		ended.Add(1)
	})
	must(0, queue.Start(ctx))
	first := time.Now().Add(ahead + 500*time.Millisecond)
	for at := time.Duration(0); at < seconds*time.Second; at += step {
		time.Sleep(time.Until(first.Add(at - ahead)))
		params := make([]river.InsertManyParams, perSecond*step/time.Second)
		for i := range params {
			due := first.Add(at + time.Duration(i)*step/time.Duration(len(params)))
			params[i] = river.InsertManyParams{Args: job{due}, InsertOpts: &river.InsertOpts{ScheduledAt: due}}
		}
		must(queue.InsertManyFast(ctx, params))
	}
	for ended.Load() < perSecond*seconds {
		time.Sleep(time.Millisecond)
	}
	must(0, queue.Stop(ctx))
	slices.Sort(late)
	return late
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: river URL [ROUNDS]")
		os.Exit(2)
	}
	ctx := context.Background()
	config := must(pgxpool.ParseConfig(os.Args[1]))
	config.MaxConns = int32(settings.MaxConns)
	pool := must(pgxpool.NewWithConfig(ctx, config))
	defer pool.Close()
	build, _ := debug.ReadBuildInfo()
	modules := build.Deps
	own := slices.IndexFunc(modules, func(each *debug.Module) bool { return each.Path == "github.com/riverqueue/river" })
	rounds := must(strconv.Atoi(append(os.Args[2:], "3")[0]))
	for round := 1; round <= rounds; round++ {
		must(pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"))
		must(pool.Exec(ctx, "CREATE SCHEMA "+schema))
		migrator := must(rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema}))
		must(migrator.Migrate(ctx, rivermigrate.DirectionUp, nil))
		perS, late := rate(ctx, pool), lateness(ctx, pool)
		early, _ := slices.BinarySearch(late, 0)
		at := func(share float64) int64 { return late[int(share*float64(len(late)-1))].Milliseconds() }
		fmt.Println(string(must(json.Marshal(map[string]any{
			"queue": "River", "version": modules[own].Version[1:], "go": runtime.Version(), "round": round,
			"jobs_per_s": perS, "early": early, "p50_ms": at(0.5), "p99_ms": at(0.99), "settings": settings,
		}))))
	}
}
