// The page: what the reader changes, what the clock does, and what is told in words.
import { Action, Count, HASHED, HEAP, load, Machine, SCENARIOS, Setup, TOLD, What, WHEEL } from './machine';
import { Picture } from './picture';

const $ = <T extends HTMLElement = HTMLElement>(id: string): T => document.getElementById(id) as T;
const NAMES = ['hierarchical wheel', 'hashed wheel', 'heap'];
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const SLOW = 60;  // ticks in a second, up to which each tick is drawn

let picture: Picture, machine: Machine;
let speed = 10, playing = false, owed = 0, rests = 0, before = 0;
let begun = 0, drew = 0, told = 0, wrote = 0, spoke = 0, spoken = '', frames: [number, number, number][] = [];

const number = (n: number): string => Math.round(n).toLocaleString('en').replaceAll(',', '\u202f');
const many = (n: number, one: string): string => `${number(n)} ${one}${n === 1 ? '' : 's'}`;
function duration(ms: number): string {
  const units: [number, string][] = [[86400000, 'd'], [3600000, 'h'], [60000, 'min'], [1000, 's'], [1, 'ms']];
  const [size, name] = units.find(([size]) => ms >= size) ?? [1, 'ms'];
  return `${+(ms / size).toPrecision(3)}\u202f${name}`;
}
function text(id: string, value: string): void {
  if ($(id).textContent !== value) $(id).textContent = value;
}

/** The theme that was chosen in the other pages of the site; a file has none. */
function followTheme(): void {
  try {
    const chosen = localStorage.getItem('vitepress-theme-appearance');
    if (chosen !== 'dark' && chosen !== 'light') return;
    for (const rule of [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules])) {
      if (rule instanceof CSSMediaRule && rule.conditionText.includes('prefers-color-scheme')) {
        rule.media.mediaText = chosen === 'dark' ? 'all' : 'not all';
      }
    }
  } catch { /* neither storage nor rules can be read */ }
}

const paceOf = (value: number): number => +(10 ** (value / 10)).toPrecision(2);
function setSpeed(pace: number): void {
  speed = Math.min(1e6, Math.max(1, pace || 1));
  $<HTMLInputElement>('speed').value = String(Math.round(10 * Math.log10(speed)));
  text('pace', `${many(speed, 'tick')} a second`);
  $('speed').setAttribute('aria-valuetext', $('pace').textContent!);
}

function play(on: boolean): void {
  playing = on;
  begun = 0;
  owed = rests = 0;
  text('play', on ? 'Pause' : 'Play');
  told = 0;
  spoke = -Infinity;
}

function make(setup: Setup, actions: Action[], at: number, steps: number): void {
  picture.flight = 0;
  machine = new Machine(setup, actions, picture);
  if (at > 0) machine.run(at, performance.now() + 8000);
  const left = at - machine.now;
  while (left <= 0 && machine.steps < steps && !machine.step());
  picture.relaid();
  picture.flight = 700;
  $<HTMLSelectElement>('tick').value = String(setup.tick);
  $<HTMLInputElement>('sizes').value = setup.sizes.join(', ');
  $<HTMLSelectElement>('slots').value = String(setup.slots);
  for (const button of $('scenarios').children) {
    button.setAttribute('aria-pressed', String((button as HTMLElement).dataset.name === setup.scenario));
  }
  text('tells', left > 0 ? `The link is ${number(left)} ticks further on, too far to go there at once: play on.`
    : SCENARIOS[setup.scenario].tells);
  spoken = '';
  changed();
}

function restart(): void {
  const { setup, actions } = machine, { tick, begin } = SCENARIOS[setup.scenario];
  make(setup, actions, Math.floor(begin * tick / setup.tick), 0);
}

/** Nothing is left: says how long all of it took, unless the reader has paused or changed something meanwhile. */
function finish(): void {
  if (begun > 0) {
    const took = ((performance.now() - begun) / 1000).toFixed(2);
    text('tells', `Here each engine took and fired ${many(machine.fired, 'timer')} in ${took} seconds.`);
  }
  play(false);
}

function toggle(): void {
  if (!playing && machine.over()) restart();
  play(!playing);
}

function choose(name: string): void {
  const { tick, sizes, slots, budget, speed, begin } = SCENARIOS[name];
  setSpeed(speed);
  make({ scenario: name, tick, sizes, slots, budget }, [], begin, 0);
}

/** Chooses and plays, unless the reader wants no motion. */
function begin(name: string): void {
  const now = performance.now();
  choose(name);
  play(!calm.matches);
  if (playing && machine.now === 0) begun = now;
}

function changed(): void {
  picture.invalidate();
  begun = told = wrote = 0;
  spoke = -Infinity;
}

// The link: what makes the engines, what the reader has done, and where the clock is.
function link(): string {
  const { scenario, tick, sizes, slots, budget } = machine.setup;
  const acts = machine.actions.map((a) => [a.at, a.steps, a.what[0], a.count, a.from, a.to].join('.'));
  const parts = { scenario, tick, sizes: sizes.join('-'), slots, budget, speed, at: machine.now, steps: machine.steps,
                  play: Number(playing), does: acts.join('_') };
  return `#${new URLSearchParams(Object.entries(parts).map(([name, value]) => [name, String(value)]))}`;
}

const whole = (value: string | null, least: number, most: number, otherwise: number): number => {
  const n = Number(value);
  return value !== null && value !== '' && Number.isInteger(n) && n >= least && n <= most ? n : otherwise;
};
const sizesOf = (value: string, otherwise: number[]): number[] => {
  const sizes = value.split(/\s*[-,]\s*/).map((size) => whole(size, 2, 4096, 0));
  return sizes.length <= 4 && sizes.every(Boolean) ? sizes : otherwise;
};

/** Follows the link, where it makes sense. */
function follow(hash: string): void {
  const given = new URLSearchParams(hash.slice(1));
  const name = given.get('scenario') ?? '';
  if (!Object.hasOwn(SCENARIOS, name)) {
    begin('first');
    return;
  }
  const standard = SCENARIOS[name];
  const actions: Action[] = [];
  for (const one of (given.get('does') ?? '').split('_').filter(Boolean)) {
    const [at, steps, what, count, from, to] = one.split('.');
    const n = [at, steps, count, from, to].map((value) => whole(value, 0, 1e15, 0));
    actions.push({ at: n[0], steps: n[1], what: what === 'a' ? 'add' : 'cancel', count: n[2], from: n[3], to: n[4] });
  }
  setSpeed(Number(given.get('speed')) || standard.speed);
  make({ scenario: name, tick: whole(given.get('tick'), 1, 60000, standard.tick),
         sizes: sizesOf(given.get('sizes') ?? '', standard.sizes),
         slots: 2 ** Math.round(Math.log2(whole(given.get('slots'), 2, 4096, standard.slots))),
         budget: whole(given.get('budget'), 1, 1e6, standard.budget) }, actions,
       whole(given.get('at'), 0, 1e15, standard.begin), whole(given.get('steps'), 0, 1e6, 0));
  play(given.get('play') === '1' && !calm.matches);
}

/** To the next tick at which the hierarchical wheel or the heap has something to do. */
function step(): void {
  play(false);
  const next = [WHEEL, HEAP].map((engine) => machine.count(engine, Count.next)).filter((tick) => tick >= 0);
  if (machine.steps === 0 && next.length > 0) machine.run(Math.min(...next) - 1, performance.now() + 500);
  machine.step();
  changed();
}

/** Moves the clock as far as it should be. Returns whether anything was done. */
function turn(now: number, elapsed: number, most: number): boolean {
  if (!playing || now < rests) return false;
  owed += speed * elapsed / 1000;
  if (owed < 1) return false;
  if (speed <= SLOW) {
    for (; owed >= 1 && now >= rests; --owed) {
      if (!machine.step()) rests = now + 300;
    }
  } else {
    const was = machine.now;
    machine.run(was + Math.floor(owed), now + most);
    owed = Math.min(owed - (machine.now - was), speed / 4);  // no more than a quarter of a second is made up for
  }
  return true;
}

function frame(): void {
  const now = performance.now(), elapsed = Math.min(100, now - before);
  before = now;
  const few = machine.pending <= TOLD;
  picture.flight = calm.matches || !few ? 0 : speed <= SLOW ? 700 : speed <= 2000 ? 350 : 0;
  picture.now = now;
  const moved = turn(now, elapsed, few ? 9 : 44);
  if (moved && machine.over()) finish();
  // Of many timers ten frames in a second are drawn: the engines get the rest of the time.
  if (few || !playing || now - drew > 100) {
    picture.draw(now, moved);
    drew = now;
  }
  if (now - told > 120 && (moved || told === 0)) tell(now);
  if (now - wrote > 1000 && (moved || wrote === 0)) {
    history.replaceState(null, '', link());
    wrote = now;
  }
  frames.push([now, performance.now() - now, machine.fired]);
  while (now - frames[0][0] > 1000) frames.shift();
  requestAnimationFrame(frame);
}

function caption(): string {
  const cascade = machine.cascade();
  if (!cascade) return 'No slot of an outer ring has been reached yet.';
  const ring = machine.levels[cascade.level], fell = cascade.to.reduce((sum, n) => sum + n, cascade.due);
  const slot = `[${number(cascade.begin)}, ${number(cascade.begin + ring.tick)})`;
  const to = cascade.to.map((n, level) => (n ? `${number(n)} to ring ${level + 1}` : '')).filter(Boolean);
  if (cascade.due) to.push(`${number(cascade.due)} due at once`);
  return `Tick ${number(cascade.begin)}: ring ${cascade.level + 1} reached its slot ${slot}. ` +
      `${number(fell)} of ${many(cascade.timers, 'timer')} fell: ${to.join(', ') || 'none yet'}.`;
}

function row(name: string, cells: string[], worst: number[]): string {
  const all = cells.map((cell, i) => `<td${worst.includes(i) ? ' class="worst"' : ''}>${cell}</td>`);
  return `<tr><th scope="row">${name}</th>${all.join('')}</tr>`;
}

/** What a reader sees in words and numbers; some times a second at most. */
function tell(now: number): void {
  told = now;
  const { levels, setup } = machine;
  machine.recount();
  text('caption', caption());
  const took = frames.reduce((sum, f) => sum + f[1], 0) / Math.max(1, frames.length);
  text('rate', `${frames.length} frames/s · ${took.toFixed(1)} ms each` +
       (speed > SLOW && frames.length > 1 ? ` · ${number(machine.fired - frames[0][2])} due/s` : ''));
  const rings = levels.map(({ tick, size }, i) => `<li style="--c:${picture.ring(i)}">ring ${i + 1}: ` +
      `${number(size)} slots of ${many(tick, 'tick')}, ${duration(tick * setup.tick)}</li>`).join('');
  if ($('rings').innerHTML !== rings) $('rings').innerHTML = rings;
  const queue = [...machine.queue].sort((a, b) => a[1] - b[1] || a[0] - b[0]);
  $('queue').innerHTML = queue.slice(0, 12).map(([where, when]) => {
    const level = levels[where >>> 24], timers = level.counts[Math.floor(when / level.tick) % level.size];
    const wide = Math.round(100 * Math.min(1, Math.log1p(timers) / Math.log1p(1000)));
    const style = `--c:${picture.ring(where >>> 24)};--w:${wide}%`;
    return `<li style="${style}">at ${number(when)} · ${many(timers, 'timer')}</li>`;
  }).join('');
  const more = queue.length - 12;
  text('more', more > 0 ? `and ${many(more, 'slot')} more` : queue.length ? '' : 'It is empty: nothing waits.');
  const columns = [Count.size, Count.moves, Count.looks, Count.wakes, Count.operations, Count.bytes];
  const cells = NAMES.map((_, engine) => columns.map((what) => machine.count(engine, what)));
  const cell = (n: number, i: number) => i === 5 ? `${number(Math.ceil(n / 1024))} KiB` : n || i === 0 ? number(n) : '–';
  $('counts').innerHTML = cells.map((one, engine) =>
      row(NAMES[engine], one.map(cell),
          [1, 2, 3, 4].filter((i) => one[i] > 0 && one[i] === Math.max(...cells.map((other) => other[i]))))).join('');
  $('sample').hidden = cells[WHEEL][0] <= TOLD;
  speak(now);
}

function describe([engine, what, where, which, when]: number[]): string {
  const slot = engine === WHEEL ? `ring ${(where >>> 24) + 1}` : `slot ${where}`;
  const timer = `timer #${which}`, at = number(when);
  const says: Record<number, string> = {
    [What.levelMade]: `ring ${where + 1} made: ${which} slots of ${many(when, 'tick')}`,
    [What.filled]: `${timer}, due at ${at}, came into ${slot}`,
    [What.pushed]: engine === HEAP ? `${timer}, due at ${at}, pushed` : `slot at ${at} of ${slot} queued`,
    [What.popped]: `slot at ${at} of ${slot} left the queue`,
    [What.flushed]: engine === HASHED ? `${slot} visited at ${at}` : `slot at ${at} of ${slot} flushed`,
    [What.moved]: `${timer} left ${slot}`,
    [What.looked]: `${timer} looked at in ${slot}: another round`,
    [What.due]: `${timer} due at ${at}`,
    [What.erased]: `${timer} cancelled`,
  };
  return `${NAMES[engine]}: ${says[what]}`;
}

/** For a screen reader: at most once in four seconds while the clock runs. */
function speak(now: number): void {
  const list = machine.last.slice(-40).reverse().map((event) => `<li>${describe(event)}</li>`).join('');
  if (!$('events').matches(':hover, :focus')) $('events').innerHTML = list;
  if (playing && now - spoke < 4000) return;
  spoke = now;
  const says = `Tick ${number(machine.clock())}: ${many(machine.pending, 'timer')} wait, ` +
      `${number(machine.fired)} were due, ${number(machine.cancelled)} cancelled. ${caption()}`;
  if (says !== spoken) text('live', spoken = says);
}

function submit(id: string, does: () => void): void {
  $(id).addEventListener('submit', (event) => {
    event.preventDefault();
    does();
    changed();
  });
}
const value = (id: string): number => Number($<HTMLInputElement>(id).value);

async function start(): Promise<void> {
  await load();
  $('fallback').hidden = true;
  $('app').hidden = false;
  followTheme();
  picture = new Picture();
  text('sample', `Drawn are the timers with numbers below ${number(TOLD)}. The counts have all.`);
  for (const [name, scenario] of Object.entries(SCENARIOS)) {
    const button = document.createElement('button');
    button.textContent = scenario.name;
    button.dataset.name = name;
    button.onclick = () => begin(name);
    $('scenarios').append(button);
  }
  $('slots').innerHTML = Array.from({ length: 12 }, (_, i) => `<option>${2 ** (i + 1)}`).join('');
  $('play').onclick = toggle;
  $('step').onclick = step;
  $('restart').onclick = restart;
  $('speed').oninput = () => setSpeed(paceOf(value('speed')));
  submit('add', () => machine.act('add', value('adds'), value('within') * machine.setup.tick));
  submit('cancel', () => machine.act('cancel', value('cancels')));
  submit('remake', () => {
    const { setup } = machine, tick = value('tick');
    make({ ...setup, tick, sizes: sizesOf($<HTMLInputElement>('sizes').value, setup.sizes), slots: value('slots') }, [],
         Math.floor(SCENARIOS[setup.scenario].begin * SCENARIOS[setup.scenario].tick / tick), 0);
  });
  $('link').onclick = async () => {
    history.replaceState(null, '', link());
    await navigator.clipboard?.writeText(location.href).catch(() => undefined);
    text('copied', 'The link is in the address bar, and copied where the browser lets it be.');
  };
  document.addEventListener('keydown', (event) => {
    const at = event.target as Element;
    if (event.ctrlKey || event.metaKey || event.altKey || at.closest('input, select, [tabindex]')) return;
    if (event.key === ' ' && !at.closest('button')) toggle();
    else if (event.key === 'ArrowRight') step();
    else return;
    event.preventDefault();
  });
  addEventListener('hashchange', () => follow(location.hash));
  follow(location.hash);
  requestAnimationFrame(frame);
}

start().catch((error: unknown) => {
  $('app').hidden = true;
  $('fallback').hidden = false;
  console.warn(error);
});
