// Compares the events of the browser's engines with those of the native build, for random programs: trace_test.mjs WORK
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const work = process.argv[2];
const programs = 1000;
const kinds = ['level made', 'filled', 'pushed', 'popped', 'flushed', 'moved', 'looked', 'due', 'erased', 'placed'];
const due = kinds.indexOf('due');
const names = ['hierarchical wheel', 'hashed wheel', 'heap'];

const module = new WebAssembly.Module(readFileSync(`${work}/wheel.wasm`));
const imports = { env: { emscripten_notify_memory_growth() {} }, wasi_snapshot_preview1: { proc_exit() {} } };
const wheel = new WebAssembly.Instance(module, imports).exports;
wheel._initialize();

const eventsOf = (engine) =>
  new Uint32Array(wheel.memory.buffer, wheel.wheel_events(engine), 5 * wheel.wheel_event_count(engine));

let state = 1;
const below = (n) => {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return Math.floor(((state >>> 0) / 2 ** 32) * n);
};
const pick = (values) => values[below(values.length)];

// Runs a random program in the browser's build. Returns its lines, and what it has left: counts, and events.
function run(engine, seed) {
  state = 0x9e3779b9 ^ (seed * 2654435761);
  const lines = [];
  const say = (what, ...n) => lines.push([what, engine, ...n, ...Array(5 - n.length).fill(0)].join(' '));
  const sizes = Array.from({ length: 4 }, (_, i) => (i < 1 || below(2) ? 2 + below(pick([3, 20, 200])) : 0));
  const start = pick([0, 0, below(1000), 2 ** 32 - 50, 2 ** 40 + below(100)]);
  say('m', ...sizes, start);
  wheel.wheel_make(engine, ...sizes, start);
  const linked = new Set();
  let seen = 0;
  const forget = () => {
    const events = eventsOf(engine);
    for (; seen < events.length; seen += 5) {
      if (events[seen] === due) linked.delete(events[seen + 2]);
    }
  };
  for (let step = 0; step < 120; ++step) {
    const clock = wheel.wheel_count(engine, 0);
    const far = pick([10, 100, 100, 3000, 2 ** 20, engine === 1 ? 2 ** 20 : 2 ** 42]);
    const what = below(10);
    if (what < 6) {
      for (let more = pick([1, 1, 1, 80]), deadline = clock + below(far); more > 0; --more) {
        const timer = below(300);
        if (!linked.has(timer)) {
          say('a', timer, deadline);
          if (wheel.wheel_add(engine, timer, deadline)) linked.add(timer);
        }
      }
    } else if (what < 8) {
      const timer = linked.size && below(4) ? [...linked][below(linked.size)] : below(300);
      say('c', timer);
      assert.equal(wheel.wheel_cancel(engine, timer), Number(linked.delete(timer)));
    } else {
      const budget = pick([1, 5, 1000]);
      const to = clock + below(far);
      say('w', to, budget);
      wheel.wheel_advance(engine, to, budget);
      forget();
    }
  }
  say('e');
  return { lines, linked, ...left(engine) };
}

const left = (engine) => ({
  counts: Array.from({ length: 9 }, (_, i) => (i === 7 ? 0 : wheel.wheel_count(engine, i))),
  events: eventsOf(engine).slice(),
});

// What the page draws without events has as many timers as the engine, and those of the heap.
function seen(engine, { linked, events }, where) {
  if (engine === 2) {
    const members = new Uint32Array(wheel.memory.buffer, wheel.wheel_members(), linked.size);
    assert.deepEqual([...members].sort(), [...linked].sort(), `${where}: the members`);
    return;
  }
  const levels = engine === 1 ? 1 : events.filter((what, i) => i % 5 === 0 && what === 0).length;
  let timers = 0;
  for (let level = 0; level < levels; ++level) {
    const size = 2 * wheel.wheel_bucket_count(engine, level);
    const buckets = new Uint32Array(wheel.memory.buffer, wheel.wheel_buckets(engine, level), size);
    for (let i = 1; i < size; i += 2) timers += buckets[i];
  }
  assert.equal(timers, linked.size, `${where}: the buckets`);
}

// The same program again: a limit leaves out the events of the timers from there on, and changes nothing else.
function runTold(engine, { lines, counts, events }, where) {
  const limit = 100;
  const calls = { m: 'wheel_make', a: 'wheel_add', c: 'wheel_cancel', w: 'wheel_advance' };
  wheel.wheel_tell(limit);
  for (const line of lines.slice(0, -1)) wheel[calls[line[0]]](...line.split(' ').slice(1).map(Number));
  wheel.wheel_tell(2 ** 32 - 1);
  const told = [];
  for (let i = 0; i < events.length; i += 5) if (events[i + 2] < limit) told.push(...events.subarray(i, i + 5));
  const again = left(engine);
  assert.deepEqual(again.counts, counts, `${where}: the counts with a limit`);
  assert.deepEqual([...again.events], told, `${where}: the events with a limit`);
}

for (const [engine, name] of names.entries()) {
  const ran = Array.from({ length: programs }, (_, seed) => {
    const where = `${name}, program ${seed}`, one = run(engine, seed);
    seen(engine, one, where);
    if (seed % 20 === 0) runTold(engine, one, where);
    return one;
  });
  const input = ran.map((one) => one.lines.join('\n')).join('\n');
  const { stdout, status } = spawnSync(`${work}/native`, { input, maxBuffer: 2 ** 30 });
  assert.equal(status, 0);
  const told = Array(kinds.length).fill(0);
  let at = 0;
  for (const [seed, { lines, counts, events }] of ran.entries()) {
    const where = `${name}, program ${seed}`;
    for (const count of counts) {
      assert.equal(stdout.readDoubleLE(at), count, `${where}: a count`);
      at += 8;
    }
    assert.equal(counts[8], 1, `${where}: the invariants`);
    assert.equal(stdout.readUInt32LE(at), events.length / 5, `${where}: how many events`);
    at += 4;
    for (let i = 0; i < events.length; ++i, at += 4) {
      if (stdout.readUInt32LE(at) !== events[i]) {
        const kind = kinds[events[i - (i % 5)]];
        assert.fail(`${where}, of ${lines.length} lines: event ${Math.floor(i / 5)} differs, ${kind}`);
      }
      if (i % 5 === 0) ++told[events[i]];
    }
  }
  assert.equal(at, stdout.length);
  const parts = kinds.map((kind, i) => `${told[i]} ${kind}`).filter((_, i) => told[i]);
  console.log(`${name}: ${programs} programs, the same ${told.reduce((a, b) => a + b)} events: ${parts.join(', ')}`);
}
