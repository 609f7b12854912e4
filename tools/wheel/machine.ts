// The three engines, on the same timers at the same time, and what their events tell of each timer.
import bytes from 'wheel.wasm';

export const WHEEL = 0, HASHED = 1, HEAP = 2;
// As `engine_event` in src/engine/engine_trace.hpp.
export enum What { levelMade, filled, pushed, popped, flushed, moved, looked, due, erased, placed }
// As `wheel_count` in wheel.cpp.
export enum Count { now, size, next, wakes, moves, looks, operations, bytes, holds, fired }

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  wheel_make(engine: number, a: number, b: number, c: number, d: number, start: number): void;
  wheel_add(engine: number, timer: number, deadline: number): number;
  wheel_cancel(engine: number, timer: number): number;
  wheel_tell(limit: number): void;
  wheel_add_some(count: number, from: number, to: number, length: number, clock: number): number;
  wheel_cancel_some(count: number): number;
  wheel_buckets(engine: number, level: number): number;
  wheel_bucket_count(engine: number, level: number): number;
  wheel_deadlines(): number;
  wheel_members(): number;
  wheel_cascade(): number;
  wheel_random(): number;
  wheel_advance(engine: number, to: number, budget: number): number;
  wheel_events(engine: number): number;
  wheel_event_count(engine: number): number;
  wheel_clear(engine: number): void;
  wheel_count(engine: number, what: number): number;
}

/** How the engines are made. Times are milliseconds; `budget` is how many timers a step handles. */
export interface Setup { scenario: string; tick: number; sizes: number[]; slots: number; budget: number }
/** `at` is the last tick that is complete, `steps` how many steps the next one has had. Delays are milliseconds. */
export interface Action { at: number; steps: number; what: 'add' | 'cancel'; count: number; from: number; to: number }
/** Timers that keep coming; the share `cancelled` of them is cancelled within `within`. */
export interface Stream { every: number; count: number; from: number; to: number; cancelled: number; within: number }
export interface Scenario {
  name: string; tells: string; tick: number; sizes: number[]; slots: number; budget: number; speed: number;
  begin: number; actions: Action[]; stream?: Stream;
}

const add = (count: number, from: number, to: number): Action => ({ at: 0, steps: 0, what: 'add', count, from, to });
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE;

export const SCENARIOS: Record<string, Scenario> = {
  first: {
    name: 'First look', tick: SECOND, sizes: [8, 12], slots: 64, budget: 256, speed: 10, begin: 40,
    tells: 'A few timers keep coming, due within 20 minutes. Watch a slot reach the hand: its timers fall inward.',
    actions: [add(110, 10 * SECOND, 1140 * SECOND)],
    stream: { every: 4 * SECOND, count: 1, from: SECOND, to: 1140 * SECOND, cancelled: 0.2, within: 100 * SECOND },
  },
  five: {
    name: '2, 10, 60, 234, 1000', tick: 1, sizes: [20], slots: 32, budget: 256, speed: 20, begin: 0,
    tells: 'Five timers, due at these ticks, on wheels of 20 slots. Timer 234 waits in slot [220, 240) and falls once.',
    actions: [2, 10, 60, 234, 1000].map((at) => add(1, at, at)),
  },
  checks: {
    name: 'Half-hour checks', tick: 100, sizes: [512, 64], slots: 512, budget: 256, speed: 600, begin: 18000,
    tells: '27 orders a second, each checked after half an hour; 95 % are cancelled within 10 minutes. 10 000 wait.',
    actions: [],
    stream: { every: SECOND, count: 27, from: HOUR / 2, to: HOUR / 2, cancelled: 0.95, within: 10 * MINUTE },
  },
  midnight: {
    name: 'A wave at midnight', tick: SECOND, sizes: [60, 60, 24], slots: 512, budget: 100000, speed: 8, begin: 7176,
    tells: 'Seconds, minutes, hours. 10 000 timers are due in the 100 seconds after midnight.',
    actions: [add(10000, 2 * HOUR, 2 * HOUR + 100 * SECOND), add(300, 2 * HOUR + 2 * MINUTE, 20 * HOUR)],
  },
  cancel: {
    name: 'A cancel in mid-cascade', tick: SECOND, sizes: [8, 12], slots: 64, budget: 4, speed: 6, begin: 56,
    tells: 'Four timers at a time fall out of slot [64, 72). After six steps, 16 timers are cancelled.',
    actions: [add(64, 65 * SECOND, 71 * SECOND), add(12, 120 * SECOND, 700 * SECOND),
              { at: 63, steps: 6, what: 'cancel', count: 16, from: 0, to: 0 }],
  },
  million: {
    name: 'A million in a second', tick: 1, sizes: [1024, 2048], slots: 512, budget: 16384, speed: 1000, begin: 0,
    tells: 'Each engine takes a million timers, due within half a second. If it fires fewer, the clock waits for it.',
    actions: [add(1000000, 1, 500)],
  },
};

/** `counts` has all timers, `told` those whose events are told. */
export interface Ring { counts: Int32Array; told: Int32Array; flashed: Float64Array }
export interface Level extends Ring { tick: number; size: number }
export interface Cascade { level: number; begin: number; to: number[]; due: number; timers: number }
export const ENGINES = 3;
/** Timers with lower numbers are drawn, and their events told; the others are counted. */
export const TOLD = 1 << 14;
const LEVELS = 64;
const ringOf = (slots: number): Ring => (
  { counts: new Int32Array(slots), told: new Int32Array(slots), flashed: new Float64Array(slots).fill(-1e9) });

let wasm: Exports;
export async function load(): Promise<void> {
  const imports = { env: { emscripten_notify_memory_growth() {} }, wasi_snapshot_preview1: { proc_exit() {} } };
  wasm = (await WebAssembly.instantiate(bytes, imports)).instance.exports as unknown as Exports;
  wasm._initialize();
  wasm.wheel_tell(TOLD);
}

/** Where the pictures hear of what happened; `from` is the level or the round that a timer left. */
export interface Watcher {
  now: number;
  begin(machine: Machine): void;
  came(engine: number, timer: number, from: number): void;
  left(engine: number, timer: number, due: boolean): void;
  relaid(): void;
}

export class Machine {
  now = 0;
  steps = 0;
  level = new Int32Array(TOLD);
  slot = new Int32Array(TOLD);
  rank = new Int32Array(TOLD);
  rounds = new Int32Array(TOLD);
  hashedSlot = new Int32Array(TOLD);
  levels: Level[] = [];
  queue = new Map<number, number>();
  hashed: Ring;
  mostRounds = 1;
  cancelled = 0;
  /** Those to draw that the hierarchical wheel has linked, and where each is among them. */
  drawn = new Int32Array(TOLD);
  drawnCount = 0;
  private place = new Int32Array(TOLD);
  private done = 0;
  private visit = 0;
  private cancels = new Map<number, number[]>();
  private log: Action[];
  last: [number, number, number, number, number][] = [];
  private stream: Stream | undefined;

  constructor(readonly setup: Setup, readonly actions: Action[], private watcher: Watcher) {
    const scenario = SCENARIOS[setup.scenario];
    watcher.begin(this);
    this.stream = scenario.stream;
    this.hashed = ringOf(setup.slots);
    for (let engine = 0; engine < ENGINES; ++engine) {
      const sizes = engine === HASHED ? [setup.slots] : setup.sizes;
      wasm.wheel_make(engine, sizes[0], sizes[1] ?? 0, sizes[2] ?? 0, sizes[3] ?? 0, 0);
      this.drain(engine);
    }
    this.log = [...scenario.actions, ...actions];
    this.applyActions();
  }

  count(engine: number, what: Count): number { return wasm.wheel_count(engine, what); }
  get pending(): number { return this.count(WHEEL, Count.size); }
  get fired(): number { return this.count(WHEEL, Count.fired); }
  /** Of each timer when it is due; of each place of the heap its timer. Both until the memory grows. */
  deadlines(): Float64Array { return new Float64Array(wasm.memory.buffer, wasm.wheel_deadlines()); }
  members(): Uint32Array { return new Uint32Array(wasm.memory.buffer, wasm.wheel_members()); }
  cascade(): Cascade | null {
    const [level, begin, timers, due, ...to] = new Float64Array(wasm.memory.buffer, wasm.wheel_cascade(), 4 + LEVELS);
    return level < 0 ? null : { level, begin, timers, due, to };
  }
  /** Brings the `counts` of all rings up to date. */
  recount(): void {
    const recountRing = ({ counts }: Ring, engine: number, level: number) => {
      const size = 2 * wasm.wheel_bucket_count(engine, level);
      const buckets = new Uint32Array(wasm.memory.buffer, wasm.wheel_buckets(engine, level), size);
      counts.fill(0);
      for (let i = 0; i < size; i += 2) counts[buckets[i]] += buckets[i + 1];
    };
    this.levels.forEach((ring, level) => recountRing(ring, WHEEL, level));
    recountRing(this.hashed, HASHED, 0);
  }
  /** The tick that the engines' clocks show; in the middle of a tick it is already that. */
  clock(): number { return this.now + (this.steps > 0 ? 1 : 0); }
  ticks(ms: number): number { return Math.ceil(ms / this.setup.tick); }

  /** Whether nothing will happen any more. */
  over(): boolean {
    return !this.stream && !this.log[this.done] && this.pending === 0 && this.count(HEAP, Count.size) === 0;
  }

  /** Does and remembers what the reader asks for. */
  act(what: Action['what'], count: number, to = 0): void {
    const action = { at: this.now, steps: this.steps, what, count, from: Math.min(to, this.setup.tick), to };
    this.actions.push(action);
    this.log.splice(this.done++, 0, action);
    this.apply(action);
  }

  private apply(action: Action): void {
    if (action.what === 'add') {
      this.add(action.count, action.from, action.to);
    } else {
      this.cancelled += wasm.wheel_cancel_some(action.count);
    }
    this.drainAll();
  }

  private applyActions(): void {
    const comes = ({ at, steps }: Action) => at < this.now || (at === this.now && steps <= this.steps);
    while (this.done < this.log.length && comes(this.log[this.done])) this.apply(this.log[this.done++]);
  }

  private add(count: number, from: number, to: number): number {
    return wasm.wheel_add_some(count, from, to, this.setup.tick, this.clock());
  }

  private erase(timer: number): void {
    ++this.cancelled;
    for (let engine = 0; engine < ENGINES; ++engine) wasm.wheel_cancel(engine, timer);
  }

  /** One step towards the next tick. Returns whether that tick is complete. */
  step(): boolean {
    let more = false;
    for (let engine = 0; engine < ENGINES; ++engine) {
      more = wasm.wheel_advance(engine, this.now + 1, this.setup.budget) === 1 || more;
      this.drain(engine);
    }
    if (more) {
      ++this.steps;
    } else {
      this.complete(this.now + 1);
    }
    this.applyActions();
    return !more;
  }

  /** Advances to `to`, or as far as it comes until `until`, by the clock of the page. */
  run(to: number, until: number): void {
    do {
      const next = this.log[this.done];
      const every = this.stream ? this.ticks(this.stream.every) : Infinity;
      let stop = Math.min(to, (Math.floor(this.now / every) + 1) * every, next ? next.at : Infinity,
                          this.now + Math.ceil(1e7 / (this.pending + 1)));
      for (let at = this.now + 1; at < stop && this.cancels.size > 0; ++at) stop = this.cancels.has(at) ? at : stop;
      if (stop <= this.now || this.steps > 0) {
        this.step();  // an action is due in the middle of the next tick
      } else {
        for (let engine = 0; engine < ENGINES; ++engine) {
          while (wasm.wheel_advance(engine, stop, this.setup.budget) === 1) this.drain(engine);
          this.drain(engine);
        }
        this.complete(stop);
        this.applyActions();
      }
    } while (this.now < to && performance.now() < until);
  }

  private complete(tick: number): void {
    this.now = tick;
    this.steps = 0;
    for (const timer of this.cancels.get(tick) ?? []) this.erase(timer);
    this.cancels.delete(tick);
    const stream = this.stream;
    if (stream && tick % this.ticks(stream.every) === 0) {
      for (let i = 0; i < stream.count; ++i) {
        const timer = this.add(1, stream.from, stream.to);
        const at = tick + this.ticks(Math.max(1, wasm.wheel_random() * stream.within));
        if (wasm.wheel_random() < stream.cancelled && at < this.deadlines()[timer]) {
          if (!this.cancels.has(at)) this.cancels.set(at, []);
          this.cancels.get(at)!.push(timer);
        }
      }
    }
    this.drainAll();
  }

  private drainAll(): void {
    for (let engine = 0; engine < ENGINES; ++engine) this.drain(engine);
  }

  private drain(engine: number): void {
    const count = 5 * wasm.wheel_event_count(engine);
    if (count === 0) return;
    const events = new Uint32Array(wasm.memory.buffer, wasm.wheel_events(engine), count);
    const few = count < 5000;
    for (let i = 0; i < count; i += 5) {
      const what: What = events[i], where = events[i + 1], which = events[i + 2];
      const when = events[i + 4] * 2 ** 32 + events[i + 3];
      if (engine === WHEEL) this.wheelEvent(what, where, which, when);
      else if (engine === HASHED) this.hashedEvent(what, where, which, when);
      else this.heapEvent(what, where, which);
      if (few && what !== What.placed) this.last.push([engine, what, where, which, when]);
    }
    if (this.last.length > 400) this.last.splice(0, this.last.length - 200);
    wasm.wheel_clear(engine);
  }

  private wheelEvent(what: What, where: number, which: number, when: number): void {
    const level = where >>> 24;
    const of = this.levels[level];
    switch (what) {
      case What.levelMade:
        this.levels.push({ tick: when, size: which, ...ringOf(which) });
        this.watcher.relaid();
        break;
      case What.filled: {
        const slot = Math.floor(when / of.tick) % of.size;
        const moved = this.place[which] !== 0;
        const from = moved ? this.level[which] : -1;
        if (!moved) {
          this.drawn[this.drawnCount++] = which;
          this.place[which] = this.drawnCount;
        }
        this.level[which] = level;
        this.slot[which] = slot;
        this.rank[which] = of.told[slot]++;
        this.watcher.came(WHEEL, which, from);
        break;
      }
      case What.pushed: this.queue.set(where, when); break;
      case What.popped: this.queue.delete(where); break;
      case What.flushed: of.flashed[Math.floor(when / of.tick) % of.size] = this.watcher.now; break;
      case What.moved: --of.told[this.slot[which]]; break;
      case What.due:
      case What.erased:
        --of.told[this.slot[which]];
        this.drawn[this.place[which] - 1] = this.drawn[--this.drawnCount];
        this.place[this.drawn[this.drawnCount]] = this.place[which];
        this.place[which] = 0;
        this.watcher.left(WHEEL, which, what === What.due);
        break;
    }
  }

  private hashedEvent(what: What, where: number, which: number, when: number): void {
    const { told, flashed } = this.hashed;
    switch (what) {
      case What.filled:
      case What.looked: {
        const before = this.rounds[which];
        // From the clock, or the visit that has just looked at it, to the deadline.
        const past = what === What.filled ? this.clock() : this.visit;
        this.rounds[which] = Math.floor((when - past - 1) / told.length);
        this.hashedSlot[which] = where;
        this.mostRounds = Math.max(this.mostRounds, Math.min(64, this.rounds[which]));
        this.watcher.came(HASHED, which, what === What.looked ? before : -1);
        break;
      }
      case What.flushed:
        flashed[where] = this.watcher.now;
        this.visit = when;
        break;
      case What.due:
      case What.erased:
        this.watcher.left(HASHED, which, what === What.due);
        break;
    }
  }

  private heapEvent(what: What, where: number, which: number): void {
    if (what === What.placed) this.watcher.came(HEAP, where, 0);
    else if (what !== What.pushed) this.watcher.left(HEAP, which, what === What.due);
  }
}
