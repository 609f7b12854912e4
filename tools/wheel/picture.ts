// Draws the engines. A timer flies from where its last event has put it to where the next one does.
import { Count, HASHED, HEAP, Machine, Ring, TOLD, WHEEL, Watcher } from './machine';

type Pen = CanvasRenderingContext2D;
const TURN = 2 * Math.PI, HOLE = 0.24, HEAP_FLASHES = 1365;
const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const jitter = (n: number): number => ((Math.imul(n + 1, 2654435761) >>> 0) % 1009) / 1009;
const ease = (f: number): number => (f < 0.5 ? 2 * f * f : 1 - (2 - 2 * f) * (1 - f));

/** A canvas that is as fine as the screen. */
class Stage {
  readonly pen: Pen;
  width = 0;
  height = 0;
  fits = false;
  private scale = 1;
  private image = new ImageData(1, 1);
  private pixels = new Uint32Array(1);
  private specked = false;
  private layer = document.createElement('canvas');  // of the image
  constructor(readonly canvas: HTMLCanvasElement) {
    this.pen = canvas.getContext('2d')!;
    new ResizeObserver(() => { this.fits = false; }).observe(canvas);
    this.fit();
  }
  /** Before each picture, since another size empties the canvas: so nobody sees an empty one. */
  fit(): void {
    if (this.fits) return;
    this.fits = true;
    const scale = Math.min(2, devicePixelRatio || 1);
    const { width, height } = this.canvas.getBoundingClientRect();
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.scale = scale;
    const { width: wide, height: high } = this.canvas;
    this.image = new ImageData(Math.max(1, wide), Math.max(1, high));
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.layer.width = this.image.width;
    this.layer.height = this.image.height;
  }

  // Many small dots are pixels of an image: a call for each would take most of a frame.
  colour(css: string): number {
    const n = parseInt(css.slice(1), 16);
    return (0xff000000 | (n & 0xff) << 16 | (n & 0xff00) | n >> 16) >>> 0;
  }
  speck(x: number, y: number, dot: number, rgb: number): void {
    const { image, pixels, scale } = this, wide = Math.max(2, Math.round(2 * dot * scale));
    const left = Math.round((x + this.width / 2 - dot) * scale), top = Math.round((y + this.height / 2 - dot) * scale);
    if (left < 0 || top < 0 || left + wide > image.width || top + wide > image.height) return;
    for (let row = top * image.width + left, end = row + wide * image.width; row < end; row += image.width) {
      for (let i = row; i < row + wide; ++i) pixels[i] = rgb;
    }
    this.specked = true;
  }
  showSpecks(): void {
    if (!this.specked) return;
    this.specked = false;
    this.layer.getContext('2d')!.putImageData(this.image, 0, 0);
    this.pixels.fill(0);
    this.pen.drawImage(this.layer, -this.width / 2, -this.height / 2, this.width, this.height);
  }
}

/** Polar places of the timers of one wheel, and of those that have left it. */
class Flights {
  angle = new Float32Array(TOLD);
  radius = new Float32Array(TOLD);
  x = new Float32Array(TOLD);
  y = new Float32Array(TOLD);
  fromAngle = new Float32Array(TOLD);
  fromRadius = new Float32Array(TOLD);
  since = new Float64Array(TOLD).fill(-1e9);
  gone: { angle: number; radius: number; since: number; due: boolean }[] = [];
  private next = 0;

  move(timer: number, angle: number, radius: number, now: number, enters: boolean): void {
    this.fromAngle[timer] = enters ? angle : this.angle[timer];
    this.fromRadius[timer] = enters ? 1.06 : this.radius[timer];
    this.angle[timer] = angle;
    this.radius[timer] = radius;
    this.x[timer] = Math.sin(angle) * radius;
    this.y[timer] = -Math.cos(angle) * radius;
    this.since[timer] = now;
  }
  leave(timer: number, now: number, due: boolean): void {
    this.gone[this.next++ % 1500] = { angle: this.angle[timer], radius: this.radius[timer], since: now, due };
  }
}

export class Picture implements Watcher {
  machine!: Machine;
  /** Milliseconds of a flight; 0: none. */
  flight = 700;
  /** The beginning of the frame. */
  now = 0;
  private wheel = new Stage(document.querySelector('#wheel')!);
  private hashed = new Stage(document.querySelector('#hashed')!);
  private heap = new Stage(document.querySelector('#heap')!);
  private flights = [new Flights(), new Flights()];
  private placed = new Float64Array(HEAP_FLASHES).fill(-1e9);
  private dense = false;
  private until = 0;
  private colours: Record<string, string> = {};
  private rings: string[] = [];

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.recolour());
    this.recolour();
  }
  private recolour(): void {
    const names = ['ink', 'muted', 'line', 'slot', 'due', 'look', 'cancel', 'panel', 'hand'];
    this.colours = Object.fromEntries(names.map((name) => [name, css(`--${name}`)]));
    this.rings = [1, 2, 3, 4].map((n) => css(`--ring${n}`));
    this.until = performance.now() + 100;
  }
  ring(level: number): string { return this.rings[level % this.rings.length]; }

  begin(machine: Machine): void {
    this.machine = machine;
    this.flights = [new Flights(), new Flights()];
    this.placed.fill(-1e9);
    this.dense = false;
  }
  relaid(): void {
    const { machine } = this;
    for (let i = 0; i < machine.drawnCount; ++i) {
      this.place(WHEEL, machine.drawn[i], false);
      this.place(HASHED, machine.drawn[i], false);
    }
  }
  came(engine: number, timer: number, from: number): void {
    if (engine !== HEAP) this.place(engine, timer, from < 0);
    else if (timer < HEAP_FLASHES) this.placed[timer] = this.flight > 0 ? this.now : -1e9;
  }
  left(engine: number, timer: number, due: boolean): void {
    if (engine !== HEAP && this.flight > 0) this.flights[engine].leave(timer, this.now, due);
  }

  private band(level: number): [number, number] {
    const width = (1 - HOLE) / Math.max(2, this.machine.levels.length);
    return [HOLE + level * width, HOLE + (level + 0.93) * width];
  }
  private dot(): number {
    const n = this.machine.drawnCount;
    const of = n <= 24 ? 0.042 : n <= 90 ? 0.022 : n <= 400 ? 0.017 : n <= 2500 ? 0.0065 : 0.004;
    return Math.max(0.8, of * this.wheel.width / 2);
  }

  private place(engine: number, timer: number, enters: boolean): void {
    const { machine } = this;
    const wheel = engine === WHEEL;
    const size = wheel ? machine.levels[machine.level[timer]].size : machine.hashed.counts.length;
    const [inner, outer] = wheel ? this.band(machine.level[timer]) : [0.42, 0.97];
    const slot = wheel ? machine.slot[timer] : machine.hashedSlot[timer];
    let across = 0.12 + 0.76 * jitter(timer);
    let up = 0.06 + 0.88 * jitter(timer ^ 0x5bd1e995);
    if (!wheel) {
      up = Math.min(1, (machine.rounds[timer] + jitter(timer ^ 0x5bd1e995) * 0.8 + 0.1) / (machine.mostRounds + 1));
    } else if (!this.dense) {
      // A pile in the middle of the slot, from its bottom.
      const cell = 2.4 * this.dot() / (0.94 * this.wheel.width / 2), width = TURN / size;
      const columns = Math.max(1, Math.min(6, Math.floor(width * inner / cell)));
      const rows = Math.max(1, Math.floor((outer - inner) / cell));
      const k = machine.rank[timer] % (rows * columns);
      up = (Math.floor(k / columns) + 0.6) / rows;
      across = 0.5 + (k % columns - (columns - 1) / 2) * cell / (inner + up * (outer - inner)) / width;
    }
    const now = this.flight > 0 ? this.now : -1e9;
    this.flights[engine].move(timer, (slot + across) / size * TURN, inner + up * (outer - inner), now, enters);
  }

  /** Draws, unless nothing has changed since, nor a canvas its size. `moved`: the clock has, or a timer. */
  draw(now: number, moved: boolean): void {
    if (moved) this.until = now + Math.max(700, this.flight);
    const stages = [this.wheel, this.hashed, this.heap];
    if (now > this.until && stages.every(({ fits }) => fits)) return;
    for (const stage of stages) stage.fit();
    this.machine.recount();
    const dense = this.machine.drawnCount > (this.dense ? 300 : 400);
    if (dense !== this.dense) {
      this.dense = dense;
      this.relaid();
    }
    this.drawWheel(now);
    this.drawHashed(now);
    this.drawHeap(now);
  }
  invalidate(): void { this.until = performance.now() + 100; }

  private sector(pen: Pen, r: number, inner: number, outer: number, from: number, to: number): void {
    pen.beginPath();
    pen.arc(0, 0, r * outer, from - TURN / 4, to - TURN / 4);
    pen.arc(0, 0, r * inner, to - TURN / 4, from - TURN / 4, true);
    pen.closePath();
  }

  private spoke(pen: Pen, r: number, inner: number, outer: number, angle: number): void {
    const x = Math.sin(angle) * r, y = -Math.cos(angle) * r;
    pen.moveTo(x * inner, y * inner);
    pen.lineTo(x * outer, y * outer);
  }

  /** A ring of slots: its ground, how full each is, which has just been flushed, and the hand. */
  private drawRing(stage: Stage, r: number, [inner, outer]: [number, number], { counts, flashed }: Ring, slot: number,
                   colour: string, now: number): void {
    const { pen } = stage;
    const size = counts.length, width = TURN / size;
    this.sector(pen, r, inner, outer, 0, TURN);
    pen.fillStyle = this.colours.slot;
    pen.fill('evenodd');
    let most = 1;
    for (let i = 0; i < size; ++i) most = Math.max(most, counts[i]);
    pen.fillStyle = pen.strokeStyle = colour;
    if (size <= 130) {
      for (let i = 0; i < size; ++i) {
        if (counts[i] === 0) continue;
        pen.globalAlpha = 0.08 + 0.3 * Math.log1p(counts[i]) / Math.log1p(Math.max(8, most));
        this.sector(pen, r, inner, outer, i * width, (i + 1) * width);
        pen.fill();
      }
      pen.globalAlpha = 1;
      pen.beginPath();
      for (let i = 0; i < size; ++i) this.spoke(pen, r, inner, outer, i * width);
      pen.lineWidth = 1;
      pen.strokeStyle = this.colours.line;
      pen.stroke();
    } else {
      pen.globalAlpha = 0.35;
      pen.beginPath();
      for (let i = 0; i < size; ++i) {
        if (counts[i] > 0) this.spoke(pen, r, inner, inner + (outer - inner) * counts[i] / most, (i + 0.5) * width);
      }
      pen.lineWidth = Math.max(0.7, r * width * inner * 0.8);
      pen.stroke();
      pen.globalAlpha = 1;
    }
    pen.fillStyle = colour;
    for (let i = 0; i < size; ++i) {
      const fades = 1 - (now - flashed[i]) / 900;
      if (fades <= 0) continue;
      pen.globalAlpha = 0.75 * fades * fades;
      const wide = Math.max(width, 0.02);
      this.sector(pen, r, inner, outer, i * width, i * width + wide);
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.beginPath();
    this.spoke(pen, r, inner, outer, slot % size * width);
    pen.lineWidth = 3;
    pen.lineCap = 'round';
    pen.strokeStyle = this.colours.hand;
    pen.stroke();
  }

  private at(flights: Flights, timer: number, now: number, r: number): [number, number] {
    const f = this.flight > 0 ? (now - flights.since[timer]) / this.flight : 1;
    if (f >= 1) return [flights.x[timer] * r, flights.y[timer] * r];
    const e = ease(Math.max(0, f)), begin = flights.fromAngle[timer];
    let turn = flights.angle[timer] - begin;
    turn -= Math.round(turn / TURN) * TURN;
    const a = begin + turn * e, radius = flights.fromRadius[timer] * (1 - e) + flights.radius[timer] * e;
    return [Math.sin(a) * radius * r, -Math.cos(a) * radius * r];
  }

  /** All timers as specks, in the colour that `which` has for each. */
  private specks(stage: Stage, flights: Flights, r: number, dot: number, now: number, rgbs: number[],
                 which: (timer: number) => number): void {
    const { drawn, drawnCount } = this.machine, landed = now - this.flight;
    for (let i = 0; i < drawnCount; ++i) {
      const timer = drawn[i], rgb = rgbs[which(timer)];
      if (flights.since[timer] <= landed) {
        stage.speck(flights.x[timer] * r, flights.y[timer] * r, dot, rgb);
      } else {
        const [x, y] = this.at(flights, timer, now, r);
        stage.speck(x, y, dot, rgb);
      }
    }
    stage.showSpecks();
  }

  /** The dots of those timers that `which` has, in one colour. */
  private dots(stage: Stage, flights: Flights, r: number, dot: number, now: number, colour: string,
               which: (timer: number) => boolean): void {
    const { pen } = stage, { machine } = this;
    const count = machine.drawnCount;
    pen.fillStyle = pen.strokeStyle = colour;
    pen.beginPath();
    for (let i = 0; i < count; ++i) {
      const timer = machine.drawn[i];
      if (!which(timer)) continue;
      const [x, y] = this.at(flights, timer, now, r);
      const f = this.flight > 0 ? (now - flights.since[timer]) / this.flight : 1;
      const wide = f < 1 ? dot * (1 + 0.5 * Math.sin(Math.max(0, f) * Math.PI)) : dot;
      pen.moveTo(x + wide, y);
      pen.arc(x, y, wide, 0, TURN);
    }
    pen.fill();
    if (count > 1500 || this.flight === 0) return;
    pen.globalAlpha = 0.4;
    pen.lineWidth = dot;
    pen.beginPath();
    for (let i = 0; i < count; ++i) {
      const timer = machine.drawn[i];
      const f = (now - flights.since[timer]) / this.flight;
      if (f <= 0 || f >= 1 || !which(timer)) continue;
      pen.moveTo(...this.at(flights, timer, now - 110 * (1 - f), r));
      pen.lineTo(...this.at(flights, timer, now, r));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  private drawGone(stage: Stage, flights: Flights, r: number, dot: number, now: number): void {
    const { pen } = stage;
    const lasts = Math.max(1, 0.8 * this.flight);
    for (const { angle, radius, since, due } of flights.gone) {
      const f = (now - since) / lasts;
      if (f >= 1) continue;
      const at = due ? radius * (1 - ease(f)) : radius;
      pen.globalAlpha = due ? 1 - f * f * 0.6 : 1 - f;
      pen.fillStyle = due ? this.colours.due : this.colours.cancel;
      pen.beginPath();
      pen.arc(Math.sin(angle) * at * r, -Math.cos(angle) * at * r, due ? dot : dot * (1 + 1.5 * f), 0, TURN);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  private begun(stage: Stage): number {
    stage.pen.clearRect(0, 0, stage.width, stage.height);
    stage.pen.save();
    stage.pen.translate(stage.width / 2, stage.height / 2);
    return 0.94 * Math.min(stage.width, stage.height) / 2;
  }

  private drawWheel(now: number): void {
    const { machine, wheel: stage } = this;
    const { pen } = stage;
    const r = this.begun(stage), dot = this.dot(), [flights] = this.flights, clock = machine.clock();
    for (const [i, level] of machine.levels.entries()) {
      this.drawRing(stage, r, this.band(i), level, clock / level.tick, this.ring(i), now);
    }
    if (dot < 2) {
      const rgbs = machine.levels.map((_, i) => stage.colour(this.ring(i)));
      this.specks(stage, flights, r, dot, now, rgbs, (timer) => machine.level[timer]);
    } else {
      for (const [i] of machine.levels.entries()) {
        this.dots(stage, flights, r, dot, now, this.ring(i), (timer) => machine.level[timer] === i);
      }
    }
    this.drawGone(stage, flights, r, dot, now);
    pen.textAlign = 'center';
    pen.textBaseline = 'middle';
    if (machine.drawnCount <= 24) {
      const deadlines = machine.deadlines();
      pen.font = `bold ${Math.round(dot * 0.8)}px system-ui, sans-serif`;
      pen.fillStyle = this.colours.panel;
      for (let i = 0; i < machine.drawnCount; ++i) {
        const timer = machine.drawn[i];
        pen.fillText(String(deadlines[timer]), ...this.at(flights, timer, now, r));
      }
    }
    pen.fillStyle = this.colours.ink;
    pen.font = `600 ${Math.round(r * 0.085)}px system-ui, sans-serif`;
    pen.fillText(clock.toLocaleString('en').replaceAll(',', '\u202f'), 0, -r * 0.02);
    pen.font = `${Math.max(11, Math.round(r * 0.038))}px system-ui, sans-serif`;
    pen.fillStyle = this.colours.muted;
    pen.fillText('tick', 0, -r * 0.1);
    pen.fillStyle = this.colours.due;
    pen.fillText(`${machine.fired.toLocaleString('en').replaceAll(',', '\u202f')} due`, 0, r * 0.08);
    pen.restore();
  }

  private drawHashed(now: number): void {
    const { machine, hashed: stage } = this;
    const r = this.begun(stage), [, flights] = this.flights;
    const dot = Math.max(0.8, Math.min(3.5, this.dot() * 0.55));
    this.drawRing(stage, r, [0.42, 0.97], machine.hashed, machine.clock(), this.colours.muted, now);
    const looked = (timer: number) => now - flights.since[timer] < 450 && flights.fromRadius[timer] < 1.05;
    const which = (timer: number) => this.flight > 0 && looked(timer) ? 2 : machine.rounds[timer] > 0 ? 0 : 1;
    const colours = [this.ring(1), this.colours.due, this.colours.look];
    if (dot < 2) {
      this.specks(stage, flights, r, dot, now, colours.map((colour) => stage.colour(colour)), which);
    } else {
      colours.forEach((colour, i) => {
        this.dots(stage, flights, r, i === 2 ? dot * 1.25 : dot, now, colour, (timer) => which(timer) === i);
      });
    }
    this.drawGone(stage, flights, r, dot, now);
    stage.pen.restore();
  }

  /** Row by row, the earliest at the top; where a row has more members than pixels, some of them. */
  private drawHeap(now: number): void {
    const { machine, heap: stage } = this;
    const { pen, width, height } = stage;
    pen.clearRect(0, 0, width, height);
    const clock = machine.clock(), size = machine.count(HEAP, Count.size);
    const deadlines = machine.deadlines(), members = machine.members();
    let rows = 1;
    while ((4 ** rows - 1) / 3 < size) ++rows;
    const step = height / Math.max(4, rows);
    const far = (ticks: number) => Math.log1p(Math.max(0, ticks));
    const farthest = far(Math.max(10, ...machine.levels.map((level) => level.tick * 8)));
    const hue = (timer: number) => 42 + 225 * Math.min(1, far(deadlines[timer] - clock) / farthest);
    const paths = new Map<number, Path2D>();  // by colour
    const pathOf = (colour: number): Path2D => {
      if (!paths.has(colour)) paths.set(colour, new Path2D());
      return paths.get(colour)!;
    };
    pen.strokeStyle = this.colours.line;
    pen.beginPath();
    for (let i = 1; i < Math.min(size, 85); ++i) {
      const row = i < 5 ? 1 : i < 21 ? 2 : 3, first = (4 ** row - 1) / 3, wide = width / 4 ** row;
      pen.moveTo((i - first + 0.5) * wide, (row + 0.5) * step);
      pen.lineTo((Math.floor((i - first) / 4) + 0.5) * wide * 4, (row - 0.5) * step);
    }
    pen.stroke();
    for (let row = 0; row < rows; ++row) {
      const first = (4 ** row - 1) / 3, wide = width / 4 ** row, y = (row + 0.5) * step;
      const end = Math.min(size, first + 4 ** row), stride = Math.max(1, Math.ceil(2 / wide));
      const dot = Math.max(1, Math.min(7, wide * 0.38));
      for (let i = first; i < end; i += stride) {
        const x = (i - first + 0.5) * wide;
        const fades = i < HEAP_FLASHES ? Math.max(0, 1 - (now - this.placed[i]) / 500) : 0;
        const path = pathOf(fades > 0 ? -1 : Math.round(hue(members[i]) / 15) * 15), wider = dot * (1 + 0.35 * fades);
        if (dot < 2) {
          path.rect(x - 1, y - Math.min(6, step / 3), 2, Math.min(12, step / 1.5));
        } else {
          path.moveTo(x + wider, y);
          path.arc(x, y, wider, 0, TURN);
        }
      }
    }
    for (const [colour, path] of paths) {
      pen.fillStyle = colour < 0 ? this.colours.look : `hsl(${colour} 65% 52%)`;
      pen.fill(path);
    }
  }
}
