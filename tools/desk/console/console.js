// The console of `timing-wheel serve`. All that comes from the store becomes text, and nothing becomes markup.
'use strict';

const at = (id) => document.getElementById(id);
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const shown = (object, name) => object[name] ?? `base64:${object[`${name}_base64`]}`;

let token = sessionStorage.getItem('token');
let readOnly = true;

function make(name, text, more = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  return Object.assign(element, more);
}
const cell = (text, className = '') => make('td', text, { className });
const count = (number) => cell(grouped(number), 'number');
const second = (time) => time.replace(/\.\d+Z$/, 'Z');

/** Each cell has the name of its column, for screens on which a row is a paragraph. */
function label(row, body) {
  const names = body.closest('table').tHead.rows[0].cells;
  [...row.cells].forEach((each, column) => { each.dataset.label = names[column].innerText; });
}

/** Bytes as they stand in an address. */
function inPath(object, name) {
  const base64 = object[`${name}_base64`];
  if (base64 === undefined) return encodeURIComponent(object[name]);
  return [...atob(base64)].map((byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`).join('');
}

function ago(seconds) {
  if (seconds <= 0) return '-';
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['min', 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
}

function say(text, isBad = false) {
  if (at('live').textContent !== text) at('live').textContent = text;
  at('live').classList.toggle('bad', isBad);
}

async function call(method, path, body) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (answer.status === 401) {
    at('enter').hidden = false;
    const { detail } = await answer.json();
    throw new Error(/expired/.test(detail) ? detail : token ? 'this token is not known' : 'a token is needed');
  }
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer;
}
const ask = async (method, path, body) => (await call(method, path, body)).json();

/** Asks the reader first. */
function confirmed(question) {
  const dialog = at('ask');
  at('question').textContent = question;
  dialog.returnValue = 'no';
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener('close', () => done(dialog.returnValue === 'yes'), { once: true });
  });
}

let told;  // what a change has said; it stays for a while
function tell(text, isBad) {
  told = { text, isBad, until: Date.now() + 5000 };
  say(text, isBad);
}
const guard = (work) => async (event) => {
  event?.preventDefault();
  try {
    await work(event);
  } catch (error) {
    tell(error.message, true);
  }
};

/** Rows that stay the same elements, so that the focus and what is chosen stay. */
function fill(body, objects, keyOf, cellsOf) {
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  objects.forEach((object, index) => {
    const key = keyOf(object);
    const row = old.get(key) ?? document.createElement('tr');
    old.delete(key);
    row.dataset.key = key;
    const all = document.createElement('tr');
    all.append(...cellsOf(object));
    label(all, body);
    [...all.cells].forEach((fresh, column) => {
      const before = row.cells[column];
      if (!before) row.append(fresh);
      else if (!before.isEqualNode(fresh)) before.replaceWith(fresh);
    });
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of old.values()) row.remove();
}

/** How long the oldest has waited, in steps of 10 s; the longest wait is as high as the picture. */
function overTime(waits) {
  const most = Math.max(1, ...waits);
  const picture = svg('svg', { viewBox: '0 0 90 20', preserveAspectRatio: 'none', class: 'over-time', role: 'img',
    'aria-label': `the oldest wait in the last 15 min: at most ${ago(Math.max(...waits))}` });
  const first = 90 - waits.length;
  let path = '';
  waits.forEach((each, index) => {
    if (each === null) return;
    const begins = index === 0 || waits[index - 1] === null;
    path += `${begins ? 'M' : 'L'}${first + index} ${(20 - 19 * each / most).toFixed(1)}h1`;
  });
  picture.append(svg('line', { x1: 0, y1: 20, x2: 90, y2: 20 }), svg('path', { d: path }));
  const graph = cell('');
  graph.append(picture);
  return graph;
}

/** Whether the server has more checks of the kind than it counts. */
const isCut = (of) => of.at_least && of.pending + of.running + of.suspect >= 100000;

function showKinds(kinds) {
  fill(at('kinds'), kinds, ({ kind }) => kind, (of) => {
    const change = cell('');
    const name = of.paused ? 'Resume' : 'Pause';
    change.append(make('button', name, { className: 'change', ariaLabel: `${name} ${of.kind}`, disabled: readOnly,
      onclick: guard(async () => {
        if (!await confirmed(`${name} ${of.kind}?`)) return;
        await ask('POST', `/v1/kinds/${inPath(of, 'kind')}/${name.toLowerCase()}`);
        tell(`${of.kind} ${of.paused ? 'goes on' : 'is paused'}`);
      }) }));
    return [cell(of.kind), cell(`${isCut(of) ? '> ' : ''}${grouped(of.pending)}`, 'number'),
      ...[of.due, of.waiting, of.running, of.retrying, of.suspect, of.dead].map(count),
      ...[of.wait_p50_s, of.wait_p99_s, of.oldest_due_s].map((waits) => cell(ago(waits), 'number')),
      overTime(of.waits_s), cell(of.why), change];
  });
}

function showRates(rates, kinds) {
  const died = kinds.reduce((sum, of) => sum + of.dead_last_minute, 0);
  const each = (number, what) => `${number.toFixed(number < 10 ? 2 : 0)} ${what}`;
  const speed = rates && [each(rates.begun_per_s, 'begun'), each(rates.ended_per_s, 'ended'),
    each(rates.failed_per_s, 'failed')];
  at('rates').textContent = [...speed ? [`In the last minute, runs per second: ${speed.join(', ')}.`] : [],
    ...died ? [`In the last minute ${grouped(died)} of the dead checks have died.`] : []].join(' ');
}

/** A node that came back with other kinds is there twice; of one that is drained no more may be known. */
function showNodes(nodes, drained) {
  const drains = new Map(drained.map((of) => [of.node, of]));
  fill(at('nodes'), nodes, ({ node, kinds }) => JSON.stringify([node, kinds]), (of) => {
    const drain = drains.get(of.node);
    const runs = drain && (drain.held === null ? 'has not answered yet'
        : drain.held === 0 ? 'runs nothing' : `still runs ${grouped(drain.held)}`);
    const name = drain ? 'End drain' : 'Drain';
    const change = cell('');
    change.append(make('button', name, { className: 'change', ariaLabel: `${name} ${of.node}`, disabled: readOnly,
      onclick: guard(async () => {
        if (!await confirmed(`${name} ${of.node}?`)) return;
        await ask('POST', `/v1/nodes/${encodeURIComponent(of.node)}/${drain ? 'resume' : 'drain'}`);
        tell(`${of.node} ${drain ? 'claims again' : 'is drained'}`);
      }) }));
    const known = of.until ? [cell(of.alive ? 'yes' : `no, since ${second(of.until)}`, of.alive ? '' : 'bad'),
      count(of.shares), cell(of.kinds.join(', ') || 'too many to be kept', 'long')] : [cell('-'), cell('-'), cell('-')];
    return [cell(of.node), ...known, cell(drain ? `since ${second(drain.since)}: ${runs}` : '-'), change];
  });
}

function svg(name, attributes) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Bars, each a tenth of the time; a bar that is as high as can be counted is as high as the picture. */
function showDue({ windows, most }) {
  const figures = windows.map(({ name, counts }) => {
    const all = counts.reduce((sum, each) => sum + each, 0);
    const text = `next ${name}: ${counts.some((each) => each >= most) ? 'more than ' : ''}${grouped(all)}`;
    const highest = Math.max(1, ...counts);
    const picture = svg('svg', { viewBox: '0 0 100 40', preserveAspectRatio: 'none', role: 'img',
      'aria-label': `${text}. In tenths: ${counts.join(', ')}` });
    picture.append(svg('line', { x1: 0, y1: 40, x2: 100, y2: 40 }));
    counts.forEach((each, index) => {
      const height = 39 * each / highest;
      picture.append(svg('rect', { x: 10 * index + 1, y: 40 - height, width: 8, height }));
    });
    const figure = document.createElement('figure');
    figure.append(make('figcaption', text), picture);
    return figure;
  });
  at('due').replaceChildren(...figures);
}

const groupKey = (of) => JSON.stringify([of.kind, shown(of, 'pattern')]);
let groups = new Map();
const chosen = new Set();
function showDead(all) {
  groups = new Map(all.map((of) => [groupKey(of), of]));
  for (const key of chosen) if (!groups.has(key)) chosen.delete(key);
  fill(at('dead'), all, groupKey, (of) => {
    const key = groupKey(of);
    const choice = cell('');
    choice.append(make('input', '', { type: 'checkbox', checked: chosen.has(key),
      ariaLabel: `${of.kind}: ${shown(of, 'error')}`, onchange: ({ target }) => {
        target.checked ? chosen.add(key) : chosen.delete(key);
        allow();
      } }));
    return [choice, cell(of.kind), cell(shown(of, 'error'), 'long'),
      cell(`${of.at_least ? '> ' : ''}${grouped(of.count)}`, 'number'), cell(second(of.first)),
      cell(second(of.last))];
  });
}

async function changeDead(method, path, verb) {
  const those = [...chosen].map((key) => groups.get(key));
  const number = those.reduce((sum, of) => sum + of.count, 0);
  const more = those.some((of) => of.at_least) ? 'at least ' : '';
  if (!await confirmed(`${verb} ${more}${grouped(number)} dead checks (${those.map((of) => of.kind).join(', ')})?`)) return;
  let changed = 0, refused = 0;
  for (const of of those) {
    const query = `kind=${inPath(of, 'kind')}&pattern=${inPath(of, 'pattern')}`;
    const done = await ask(method, `${path}?${query}`);
    changed += done.changed;
    refused += done.refused;
  }
  tell(`${verb}: ${grouped(changed)} done${refused ? `, ${grouped(refused)} refused` : ''}`);
}

function allow() {
  for (const button of document.querySelectorAll('.change')) button.disabled = readOnly;
  for (const id of ['retry', 'delete']) at(id).disabled = readOnly || chosen.size === 0;
}

function show(all) {
  if (!all.kinds) {
    say(all.detail, true);
    return;
  }
  readOnly = all.read_only;
  at('store').textContent = `${all.store.type} ${all.store.name}, tables ${all.store.tables}`;
  showKinds(all.kinds);
  showRates(all.rates, all.kinds);
  showNodes(all.nodes, all.drained);
  showDue(all.due);
  showDead(all.dead);
  allow();
  if (told && told.until > Date.now()) say(told.text, told.isBad);
  else say(readOnly ? 'live, nothing can be changed' : 'live');
}

/** One line of JSON each second. EventSource sends no token, so it is read from a fetch. */
async function watch() {
  const answer = await call('GET', '/v1/events');
  at('enter').hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ;) {
    const { done, value } = await reader.read();
    if (done) throw new Error('the server has gone');
    const events = (text + value).split('\n\n');
    text = events.pop();
    if (events.length > 0) show(JSON.parse(events.at(-1).slice('data: '.length)));
  }
}
async function watchAlways() {
  for (;;) {
    try {
      await watch();
    } catch (error) {
      say(error.message, true);
    }
    if (!at('enter').hidden) return;
    await new Promise((done) => setTimeout(done, 1000));
  }
}

let next;  // where the list goes on
async function list(cursor) {
  const state = at('state').value;
  const query = new URLSearchParams({ limit: 50 });
  if (at('kind').value) query.set('kind', at('kind').value);
  if (at('key').value) query.set('key', at('key').value);
  if (state && state !== 'dead') query.set('state', state);
  if (at('earliest').checked) query.set('earliest', true);
  if (cursor) query.set('cursor', cursor);
  const page = await ask('GET', `${state === 'dead' ? '/v1/dead' : '/v1/checks'}?${query}`);
  if (!cursor) at('checks').replaceChildren();
  for (const of of page.checks ?? page.dead) {
    const row = document.createElement('tr');
    const key = cell('', 'long');
    key.append(make('button', shown(of, 'key'), { onclick: guard(() => tellStory(of)) }));
    row.append(cell(of.kind), key, cell(of.state), cell(second(of.due)), count(of.attempt));
    label(row, at('checks'));
    at('checks').append(row);
  }
  next = page.cursor;
  at('more').hidden = next === null;
  if (at('checks').rows.length === 0) tell('no such check');
}

let path;  // of the check whose story is told
async function tellStory(of) {
  path = `/v1/kinds/${inPath(of, 'kind')}/checks/${inPath(of, 'key')}`;
  at('story-title').textContent = `${of.kind} ${shown(of, 'key')}`;
  await refresh();
  at('story').hidden = false;
  at('story-title').focus();
}
async function refresh() {
  const why = await ask('GET', `${path}/why`);
  at('because').textContent = [...why.because, ...why.do].join(' ');
  const facts = [];
  if (why.state !== 'unknown') {
    const { check, dead } = await ask('GET', path);
    for (const each of [check, ...dead]) {
      for (const [name, value] of Object.entries(each ?? {})) {
        const text = name === 'run' && value ? `on ${value.node} since ${value.begun}, told ${value.told}` : value;
        if (text !== null) facts.push(make('dt', name.replaceAll('_', ' ')), make('dd', text));
      }
    }
  }
  at('facts').replaceChildren(...facts);
}
const changeCheck = (verb, method, suffix, body) => guard(async () => {
  const name = at('story-title').textContent;
  if (!await confirmed(`${verb} ${name}?`)) return;
  const { result } = await ask(method, path + suffix, body?.());
  tell(`${name}: ${result}`);
  await refresh();
});

at('enter').addEventListener('submit', (event) => {
  event.preventDefault();
  token = at('token').value;
  at('token').value = '';
  sessionStorage.setItem('token', token);
  at('enter').hidden = true;
  watchAlways();
});
at('find').addEventListener('submit', guard(() => list()));
at('more').addEventListener('click', guard(() => list(next)));
at('retry').addEventListener('click', guard(() => changeDead('POST', '/v1/dead/retry', 'Retry')));
at('delete').addEventListener('click', guard(() => changeDead('DELETE', '/v1/dead', 'Delete')));
at('run-now').addEventListener('click', changeCheck('Run now', 'POST', '/run-now'));
at('cancel').addEventListener('click', changeCheck('Cancel', 'DELETE', ''));
at('move').addEventListener('submit',
    changeCheck('Reschedule', 'POST', '/reschedule', () => ({ delay: at('delay').value })));
allow();
watchAlways();
