#!/usr/bin/env node
// Measures the job queues that stand beside durable checks in docs/benchmarks.md, on the same work:
//
//   job_queues.mjs URL [ROUNDS]
//   job_queues.mjs --table FILE     prints the table of that page from such lines, each with its "disk"
//
// URL is that of a PostgreSQL server of your own, in which it makes the schemas `graphile_worker` and `pgboss` anew.
// The folder where it runs has the packages: npm install graphile-worker pg-boss@12 pg; or pg-boss@10.
// In turns, ROUNDS (3) times for each: the rate of 60 000 jobs that are due, from the first to the end of the last; and
// how late 500 per second are, for 10 s, which were added three seconds before they are due. It prints a line of JSON
// for each round. River, a queue for Go, has a program of its own: river.go.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const [url, rounds = "3"] = process.argv.slice(2);
if (!url) {
  console.error("usage: job_queues.mjs URL [ROUNDS], or job_queues.mjs --table FILE");
  process.exit(2);
}

// The mean of a figure, after its digits: 24.6 k, 101, 3.1.
function mean(lines, figure) {
  const value = lines.reduce((sum, line) => sum + line[figure], 0) / lines.length;
  return value >= 1000 ? `${(value / 1000).toFixed(1)} k` : value.toFixed(value < 20 ? 1 : 0);
}

function table(lines) {
  const rows = [...new Set(lines.map(({ queue }) => queue))].map((queue) => {
    const cells = ["fast", "slow"].flatMap((disk) => {
      const of = lines.filter((line) => line.queue === queue && line.disk === disk);
      return [mean(of, "jobs_per_s"), `${mean(of, "p50_ms")}, ${mean(of, "p99_ms")}`];
    });
    return `| ${queue} ${lines.find((line) => line.queue === queue).version} | ${cells.join(" | ")} |`;
  });
  return ["| | jobs per s, fast | p50, p99, ms | jobs per s, slow | p50, p99, ms |", "|---|---|---|---|---|", ...rows];
}

if (url === "--table") {
  const lines = readFileSync(rounds, "utf8").trim().split("\n");
  console.log(table(lines.map((line) => JSON.parse(line))).join("\n"));
  process.exit();
}
const here = createRequire(join(process.cwd(), "package.json"));
const { Pool } = here("pg");
const worker = here("graphile-worker");
const boss = here("pg-boss");
const PgBoss = boss.PgBoss ?? boss; // of version 10, it is the module
const versionOf = (name) => JSON.parse(readFileSync(join("node_modules", name, "package.json"), "utf8")).version;

const backlog = 60_000;
const [perSecond, seconds, aheadMs] = [500, 10, 3000];
const pool = new Pool({ connectionString: url });

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
      const specs = jobs.map((due) => ({ identifier: "job", payload: { due }, runAt: new Date(due) }));
      await this.utils.addJobs(specs);
    },
    async work(hasRun) {
      const runner = await worker.run({
        connectionString: url, noHandleSignals: true, taskList: { job: ({ due }) => hasRun(due) },
        logger: new worker.Logger(() => () => {}), preset: { worker: this.settings },
      });
      return () => runner.stop();
    },
    close() {
      return this.utils.release();
    },
  },
  "pg-boss": {
    settings: { fetch: { loops: 2, batchSize: 1000 }, work: { pollingIntervalSeconds: 0.5, batchSize: 1000 } },
    schema: "pgboss",
    async open() {
      this.boss = new PgBoss({ connectionString: url, supervise: false, schedule: false });
      this.boss.on("error", (error) => console.error(error));
      await this.boss.start();
      await this.boss.createQueue("job");
    },
    add(jobs) {
      const rows = jobs.map((due) => ({ data: { due }, startAfter: new Date(due) }));
      return boss.PgBoss ? this.boss.insert("job", rows) : this.boss.insert(rows.map((row) => ({ name: "job", ...row })));
    },
    // `work` takes one batch for each poll, so a backlog is fetched by loops.
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
          if (jobs.length !== 0) {
            await this.boss.complete("job", jobs.map(({ id }) => id));
            jobs.forEach(({ data }) => hasRun(data.due));
          } else {
            await sleep(10);
          }
        }
      });
      return () => ((goesOn = false), Promise.all(all));
    },
    close() {
      return this.boss.stop({ graceful: false });
    },
  },
};

async function addAll(queue, dues) {
  for (let at = 0; at < dues.length; at += 1000) {
    await queue.add(dues.slice(at, at + 1000));
  }
}

async function rate(queue) {
  await addAll(queue, Array(backlog).fill(Date.now() - 1000));
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
    await queue.add(Array.from({ length: count }, (_, i) => first + at + (i * step) / count));
  }
  await until(() => late.length >= perSecond * seconds);
  await stop();
  late.sort((a, b) => a - b);
  const at = (share) => late[Math.floor(share * (late.length - 1))];
  return { early: late.filter((one) => one < 0).length, p50_ms: at(0.5), p99_ms: at(0.99) };
}

for (let round = 1; round <= Number(rounds); ++round) {
  for (const [name, queue] of Object.entries(queues)) {
    await pool.query(`DROP SCHEMA IF EXISTS ${queue.schema} CASCADE`);
    await queue.open();
    const figures = { ...(await rate(queue)), ...(await lateness(queue)) };
    await queue.close();
    console.log(JSON.stringify({ queue: name, version: versionOf(name), node: process.version, round, ...figures,
      settings: queue.settings }));
  }
}
await pool.end();
