#!/usr/bin/env node
// Measures the job queues that stand beside durable checks in docs/benchmarks.md, and ours, on the same server:
//
//   job_queues.mjs URL [--rounds 3] [--disk fast] [--update] [--queues graphile-worker,pg-boss] [--ours PROGRAM]
//                  [--river PROGRAM]
//   job_queues.mjs --table FILE [--update]     prints the table of that page from such lines
//
// URL is that of a PostgreSQL server of your own, in which it makes the schemas `graphile_worker`, `pgboss`, `river`
// and `timing_wheel`, and the table `orders`, anew. All of them connect by this URL. The folder where it runs has the
// packages: npm install graphile-worker pg-boss@12 pg; or pg-boss@10. PROGRAM of ours is that of `./dev bench` unless
// you name another, River's is built from river.go. In turns, so many times for each: the rate of 100 000 jobs that are
// due, from the first to the end of the last, with handlers that do nothing; and how late 500 per second are, for 5 s,
// which were added three seconds before they are due (ours: all before the first is due). With --update, 60 000 jobs,
// each of which updates a row of `orders`, by a prepared statement of its own or, "in batches", by one for all jobs of
// a batch; lateness is left out. It prints a line of JSON for each round, with the load of the machine before it.

import { execFileSync, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const text = { type: "string" };
const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    disk: { ...text, default: "fast" },
    ours: { ...text, default: join(process.argv[1], "../../../build/bench/benchmarks/durable_postgres_bench") },
    queues: { ...text, default: "graphile-worker,pg-boss" },
    river: text,
    rounds: { ...text, default: "3" },
    table: text,
    update: { type: "boolean", default: false },
  },
});
const [url] = positionals;
if (!url && !options.table) {
  console.error("usage: job_queues.mjs URL [--rounds 3] [--update] …, or job_queues.mjs --table FILE; see its head");
  process.exit(2);
}

// Of an even number, the mean of the two in the middle.
function median(lines, figure) {
  const sorted = lines.map((line) => line[figure]).sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

// For each disk: medians of the rate and of the lateness if it was measured, and the rate by graphile-worker's. A row
// of ours names the peers whose rate is higher.
function table(lines) {
  const lateness = lines.some((line) => "p50_ms" in line);
  const named = ({ queue, version }) =>
    queue.startsWith("timing_wheel") ? queue.replace("timing_wheel", "ours") : queue.replace(/^[^,]*/, `$& ${version}`);
  const names = [...new Set(lines.map(named))];
  const of = (is, disk) => lines.filter((line) => is(line) && line.disk === disk);
  const milliseconds = (some, figure) => median(some, figure).toFixed(median(some, figure) < 20 ? 1 : 0);
  const cells = (name, disk) => {
    const own = of((line) => named(line) === name, disk);
    const peer = of(({ queue }) => queue === "graphile-worker", disk);
    if (own.length === 0) {
      return Array(lateness ? 3 : 2).fill("–");
    }
    const [rate, of_peer] = [own, peer].map((some) => median(some, "jobs_per_s"));
    const late = lateness ? [`${milliseconds(own, "p50_ms")}, ${milliseconds(own, "p99_ms")}`] : [];
    const isAhead = (peer) => {
      const theirs = of((line) => named(line) === peer, disk);
      return theirs.length !== 0 && median(theirs, "jobs_per_s") > rate;
    };
    const ahead = name.startsWith("ours") ? names.filter((each) => !each.startsWith("ours") && isAhead(each)) : [];
    const behind = ahead.length !== 0 ? ` (slower than ${ahead.map((name) => `"${name}"`).join(", ")})` : "";
    return [`${(rate / 1000).toFixed(1)} k${behind}`, `${(rate / of_peer).toFixed(2)} ×`, ...late];
  };
  const rows = names.map((name) => `| ${[name, ...cells(name, "fast"), ...cells(name, "slow")].join(" | ")} |`);
  const heads = ["fast", "slow"].flatMap((disk) => [
    `jobs per s, ${disk}`, "times graphile-worker's", ...(lateness ? ["p50, p99, ms"] : []),
  ]);
  return [`| | ${heads.join(" | ")} |`, `|${"---|".repeat(heads.length + 1)}`, ...rows];
}

if (options.table) {
  const lines = readFileSync(options.table, "utf8").trim().split("\n").map((line) => JSON.parse(line));
  console.log(table(lines.filter((line) => Boolean(line.update) === options.update)).join("\n"));
  process.exit();
}
const here = createRequire(join(process.cwd(), "package.json"));
const { Pool } = here("pg");
const worker = here("graphile-worker");
const boss = here("pg-boss");
const PgBoss = boss.PgBoss ?? boss; // of version 10, it is the module
const versionOf = (name) => JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8")).version;

const backlog = options.update ? 60_000 : 100_000;
const [perSecond, seconds, aheadMs] = [500, 5, 3000];
const pool = new Pool({ connectionString: url, max: 25 });
pool.on("error", (error) => console.error(error));

const orders = 100_000;
const updateOne = { name: "one", text: "UPDATE orders SET state=state+1 WHERE id=$1" };
const updateMany = { name: "many", text: "UPDATE orders SET state=state+1 WHERE id=ANY($1::bigint[])" };

async function until(condition) {
  while (!condition()) {
    await sleep(1);
  }
}

// Each names what it sets for throughput, after its own pages.
const queues = {
  "graphile-worker": {
    settings: {
      concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
      pollInterval: 100,
    },
    schema: "graphile_worker",
    async open() {
      this.utils = await worker.makeWorkerUtils({ pgPool: pool });
      await this.utils.migrate();
    },
    async add(jobs) {
      const specs = jobs.map(({ due, order }) => ({
        identifier: "job", payload: { due, order }, runAt: new Date(due),
      }));
      await this.utils.addJobs(specs);
    },
    async work(hasRun) {
      const update = async ({ due, order }, { withPgClient }) => {
        await withPgClient((client) => client.query({ ...updateOne, values: [order] }));
        hasRun(due);
      };
      const runner = await worker.run({
        connectionString: url, noHandleSignals: true,
        taskList: { job: options.update ? update : ({ due }) => hasRun(due) },
        logger: new worker.Logger(() => () => {}), preset: { worker: this.settings },
      });
      return () => runner.stop();
    },
    close() {
      return this.utils.release();
    },
  },
};

// `work` takes one batch for each poll, so a backlog is fetched by loops.
const pgBoss = (batches) => ({
  settings: { fetch: { loops: 2, batchSize: 1000 }, work: { pollingIntervalSeconds: 0.5, batchSize: 1000 } },
  schema: "pgboss",
  async open() {
    this.boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
    this.boss.on("error", (error) => console.error(error));
    await this.boss.start();
    await this.boss.createQueue("job");
  },
  add(jobs) {
    const rows = jobs.map((data) => ({ data, startAfter: new Date(data.due) }));
    return boss.PgBoss ? this.boss.insert("job", rows) : this.boss.insert(rows.map((row) => ({ name: "job", ...row })));
  },
  update(jobs) {
    const of = jobs.map(({ data }) => data.order);
    return batches
      ? pool.query({ ...updateMany, values: [of] })
      : Promise.all(of.map((order) => pool.query({ ...updateOne, values: [order] })));
  },
  async work(hasRun, isBacklog) {
    if (!isBacklog) {
      await this.boss.work("job", this.settings.work, async (jobs) => jobs.forEach(({ data }) => hasRun(data.due)));
      return () => this.boss.offWork("job");
    }
    let goesOn = true;
    const { loops, batchSize } = this.settings.fetch;
    const all = Array.from({ length: loops }, async () => {
      while (goesOn) {
        const jobs = (await this.boss.fetch("job", { batchSize })) ?? [];
        if (jobs.length === 0) {
          await sleep(10);
          continue;
        }
        if (options.update) {
          await this.update(jobs);
        }
        await this.boss.complete("job", jobs.map(({ id }) => id));
        jobs.forEach(({ data }) => hasRun(data.due));
      }
    });
    return () => ((goesOn = false), Promise.all(all));
  },
  close() {
    return this.boss.stop({ graceful: false });
  },
});
queues["pg-boss"] = pgBoss(false);
const inBatches = "pg-boss, in batches";
queues[inBatches] = pgBoss(true);

async function addAll(queue, jobs) {
  for (let at = 0; at < jobs.length; at += 1000) {
    await queue.add(jobs.slice(at, at + 1000));
  }
}

async function rate(queue) {
  const due = Date.now() - 1000;
  await addAll(queue, Array.from({ length: backlog }, (_, at) => ({ due, order: at % orders })));
  await pool.query("VACUUM ANALYZE");
  let ran = 0;
  const begin = performance.now();
  const stop = await queue.work(() => void ++ran, true);
  await until(() => ran >= backlog);
  const took = (performance.now() - begin) / 1000;
  await stop();
  return { jobs_per_s: Math.round(backlog / took) };
}

async function lateness(queue) {
  const late = [];
  const stop = await queue.work((due) => void late.push(Date.now() - due), false);
  const step = 100;
  const first = Date.now() + aheadMs + 500;
  for (let at = 0; at < seconds * 1000; at += step) {
    await sleep(Math.max(0, first + at - aheadMs - Date.now()));
    const count = (perSecond * step) / 1000;
    await queue.add(Array.from({ length: count }, (_, i) => ({ due: first + at + (i * step) / count })));
  }
  await until(() => late.length >= perSecond * seconds);
  await stop();
  late.sort((a, b) => a - b);
  const at = (share) => late[Math.floor(share * (late.length - 1))];
  return { early: late.filter((one) => one < 0).length, p50_ms: at(0.5), p99_ms: at(0.99) };
}

// Programs that make their tables themselves.
function* ours(program) {
  const filter = options.update
    ? "^one_job_per_call/(statement:2|statement:3/nodes:1)/"
    : "^(backlog|lateness/.*rows:0/due_per_s:500)/";
  const out = execFileSync(program, [`--benchmark_filter=${filter}`, "--benchmark_format=json"], {
    env: { ...process.env, TIMING_WHEEL_BENCH_SERVER: url },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const all = JSON.parse(out).benchmarks;
  const line = (how, { jobs_per_s }, more = {}) => ({
    queue: `timing_wheel, ${how}`, version: "0.2.0", jobs_per_s: Math.round(jobs_per_s), ...more,
    settings: { command: `durable_postgres_bench ${filter}` },
  });
  if (options.update) {
    for (const one of all) {
      const [, statement, nodes] = one.name.match(/statement:(\d)\/nodes:(\d)/);
      yield line(`${nodes} node${nodes === "1" ? "" : "s"}${statement === "3" ? ", in batches" : ""}`, one);
    }
    return;
  }
  for (const how of ["leased", "transactional"]) {
    const of = (what) => all.find(({ name }) => name.startsWith(`${what}/${how}`));
    const { early, ...late } = of("lateness");
    const [p50_ms, p99_ms] = [late.p50_ms, late.p99_ms].map((each) => Number(each.toFixed(2)));
    yield line(how, of("backlog"), { early, p50_ms, p99_ms });
  }
}

async function* peer(name, queue) {
  await pool.query(`DROP SCHEMA IF EXISTS ${queue.schema} CASCADE`);
  await queue.open();
  const figures = { ...(await rate(queue)), ...(options.update ? {} : await lateness(queue)) };
  await queue.close();
  await pool.query(`DROP SCHEMA ${queue.schema} CASCADE`);
  const version = versionOf(name.split(",")[0]);
  yield { queue: name, version, node: process.version, ...figures, settings: queue.settings };
}

function* river(program) {
  const { round, ...figures } = JSON.parse(execFileSync(program, [url, "1"]));
  yield figures;
}

// Each turn drops these schemas, and the table `orders`.
const own = ["timing_wheel", "graphile_worker", "pgboss", "river"];
const { rows: foreign } = await pool.query(`SELECT schemaname, tablename FROM pg_tables WHERE NOT (schemaname = ANY($1)
  OR schemaname IN ('pg_catalog', 'information_schema') OR tablename = 'orders' AND schemaname = 'public')`, [own]);
if (foreign.length > 0) {
  console.error(`this database has the table ${foreign[0].schemaname}.${foreign[0].tablename}: give an empty one`);
  process.exit(2);
}
const server = {};
for (const name of ["server_version", "shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum_naptime"]) {
  server[name] = (await pool.query(`SHOW ${name}`)).rows[0][name];
}
const when = new Date().toISOString().slice(0, 10);
const machine = `${cpus().length} × ${cpus()[0].model}`;
const git = spawnSync("git", ["describe", "--always", "--dirty", "--exclude=*"], { cwd: import.meta.dirname });
const commit = git.status === 0 ? git.stdout.toString().trim() : undefined;
const names = options.queues.split(",").filter(Boolean);
const turns = [
  ...(options.ours ? [() => ours(options.ours)] : []),
  ...names.map((name) => () => peer(name, queues[name])),
  ...(options.update && names.includes("pg-boss") ? [() => peer(inBatches, queues[inBatches])] : []),
  ...(options.river && !options.update ? [() => river(options.river)] : []),
];
for (let round = 1; round <= Number(options.rounds); ++round) {
  for (const turn of turns) {
    await pool.query("DROP TABLE IF EXISTS orders");
    await pool.query("CREATE TABLE orders(id bigint PRIMARY KEY,state int) WITH (fillfactor=70)");
    await pool.query(`INSERT INTO orders SELECT g,0 FROM generate_series(0,${orders - 1}) g`);
    await pool.query("ANALYZE orders");
    await pool.query("CHECKPOINT");
    const load = Number(loadavg()[0].toFixed(2));
    for await (const figures of turn()) {
      const update = options.update ? { update: true } : {};
      console.log(JSON.stringify({ when, machine, commit, disk: options.disk, load, ...update, round, ...figures, server }));
    }
  }
}
await pool.end();
