// Opens the console in Chromium, and does what an operator does: page_test.mjs MODULES PICTURES ADDRESS TOKEN [cut]. The
// test DeskServeOnce.ThePageWorksInABrowser fills the store, or ThePageSaysWhichCountsAreCut.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [, , modules, pictures, home, token, cut] = process.argv;
const require = createRequire(`${modules}/`);
const puppeteer = require('puppeteer-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'],
});
const devices = {
  desk: { width: 1280, height: 900 }, phone: { width: 390, height: 844, isMobile: true, hasTouch: true },
};

/** A page that must say nothing in its console, and ask nobody else for anything. */
async function open({ device = 'desk', scheme = 'light', known = true } = {}) {
  const tab = await browser.newPage();
  tab.said = [];
  tab.on('console', (message) => tab.said.push(message.text()));
  tab.on('pageerror', (error) => tab.said.push(String(error)));
  tab.on('dialog', (dialog) => tab.said.push(`a dialog: ${dialog.message()}`));
  tab.on('request', (request) => {
    if (!request.url().startsWith(home) && request.url() !== 'data:,') tab.said.push(request.url());
  });
  await tab.setViewport(devices[device]);
  await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
  if (known) await tab.evaluateOnNewDocument((token) => sessionStorage.setItem('token', token), token);
  await tab.goto(home);
  return tab;
}
async function close(tab) {
  assert.deepEqual(tab.said, [], 'the console');
  await tab.close();
}
const says = (tab, id, what) => tab.waitForFunction(
    (id, what) => new RegExp(what).test(document.getElementById(id).textContent), { timeout: 10000 }, id, what,
).catch(async () => assert.fail(`#${id} does not say ${what}: ${await text(tab, id)}`));
const text = (tab, id) => tab.$eval(`#${id}`, (element) => element.textContent);
async function click(tab, what) {
  await (await tab.waitForSelector(`${what}:not([disabled])`, { visible: true, timeout: 10000 })).click();
}
async function type(tab, what, text) {
  await tab.$eval(what, (field) => { field.value = ''; });
  await tab.type(what, text);
}
async function confirm(tab, question, answer = 'yes') {
  await says(tab, 'question', question);
  await click(tab, `#ask button[value=${answer}]`);
}

let tab;
if (cut) {
  tab = await open();
  await says(tab, 'kinds', 'close> 100.000');
  await says(tab, 'dead', 'closeno> 10.000');
  await tab.$eval('[aria-label="close: no"]', (box) => box.click());
  await click(tab, '#retry');
  await confirm(tab, '^Retry at least 10.000 dead checks \\(close\\)\\?$', 'no');
  await close(tab);
  await browser.close();
  process.exit();
}

// A token that is wrong, and then the right one.
tab = await open({ known: false });
for (const typed of ['0123456789abcdefg', token]) {
  await says(tab, 'live', typed === token ? 'this token is not known' : 'a token is needed');
  await type(tab, '#token', typed);
  await tab.keyboard.press('Enter');
  await tab.waitForFunction((typed) => sessionStorage.getItem('token') === typed, {}, typed);
}
await says(tab, 'live', '^live$');
assert.equal(tab.said.filter((said) => / 401 /.test(said)).length, 2, 'two refusals');
tab.said = tab.said.filter((said) => !/ 401 /.test(said));
await close(tab);

for (const device of Object.keys(devices)) {
  for (const scheme of ['light', 'dark']) {
    tab = await open({ device, scheme });
    await says(tab, 'live', '^live$');
    await says(tab, 'kinds', 'close.*late.*min.*no live node has a handler.*other');
    await says(tab, 'due', 'next half hour: 1.*next day: 62');
    assert.equal((await tab.$$('#due rect')).length, 40, 'the bars');
    const graph = await tab.$eval('[data-key=late] path', (path) => path.getAttribute('d'));
    assert.match(graph, / 1\.0h1/, 'the longest wait is as high as the picture');
    await click(tab, '#find button');
    await tab.waitForSelector('#checks tr');
    await click(tab, '#checks button');
    await tab.waitForSelector('#story:not([hidden])');
    await tab.screenshot({ path: `${pictures}/${device}-${scheme}.png`, fullPage: true });
    const wide = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, 'nothing is wider than the screen');
    await tab.evaluate(axe);
    const { violations, passes } = await tab.evaluate(() => globalThis.axe.run());
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes[0].html]), [], 'axe-core');
    assert.ok(passes.length > 15, 'axe-core has looked');
    await close(tab);
  }
}

// Each button.
tab = await open();
await says(tab, 'live', '^live$');
await click(tab, '[aria-label="Pause other"]');
await confirm(tab, '^Pause other\\?$', 'no');
await tab.focus('[aria-label="Pause other"]');
await tab.keyboard.press('Enter');
await says(tab, 'question', '^Pause other');
await tab.keyboard.press('Tab');
await tab.keyboard.press('Escape');
await click(tab, '[aria-label="Pause other"]');
await confirm(tab, '^Pause other\\?$');
await says(tab, 'kinds', 'paused');
await click(tab, '[aria-label="Resume other"]');
await confirm(tab, '^Resume other\\?$');
await tab.waitForSelector('[aria-label="Pause other"]');
assert.ok(!/paused/.test(await text(tab, 'kinds')), 'it goes on');

if (await text(tab, 'nodes')) {  // a server knows them
  await click(tab, '[aria-label="Drain node-1"]');
  await confirm(tab, '^Drain node-1\\?$');
  await says(tab, 'nodes', 'node-1yes64closesince .*Z: has not answered yet');
  await click(tab, '[aria-label="End drain node-1"]');
  await confirm(tab, '^End drain node-1\\?$');
  await tab.waitForSelector('[aria-label="Drain node-1"]');
  assert.equal((await tab.$$('#nodes tr')).length, 2, 'a node that came back is there twice, and not more often');
}
await says(tab, 'rates',
    '^In the last minute, runs per second: 20 begun, 1.00 ended, 0.05 failed. In .* 3 of the dead checks have died');

await click(tab, '#find button');
await tab.waitForFunction(() => document.querySelectorAll('#checks tr').length === 50);
await click(tab, '#more');
await tab.waitForFunction(() => document.querySelectorAll('#checks tr').length === 63);
await click(tab, '#earliest');
await click(tab, '#find button');
await says(tab, 'checks', '^lateorder-1');
await type(tab, '#key', '<b>');
await click(tab, '#find button');
await tab.waitForFunction(() => document.querySelectorAll('#checks tr').length === 1);
await click(tab, '#checks button');
await says(tab, 'because', 'It is not due yet');
await says(tab, 'facts', '<script>alert\\(1\\)</script>');
assert.equal(await text(tab, 'story-title'), 'other <b>bold</b>', 'a key is text');
await type(tab, '#delay', '2h');
await click(tab, '#move button');
await confirm(tab, '^Reschedule other <b>bold</b>\\?$');
await says(tab, 'because', 'in (2 h|120 min)');
await type(tab, '#delay', 'soon');
await click(tab, '#move button');
await confirm(tab, '^Reschedule');
await says(tab, 'live', 'delay: .soon. is none');
await click(tab, '#run-now');
await confirm(tab, '^Run now');
await says(tab, 'because', 'It has been due since');
await click(tab, '#cancel');
await confirm(tab, '^Cancel');
await says(tab, 'live', ': cancelled');
await says(tab, 'because', 'There is no such check');
await tab.select('#state', 'dead');
await type(tab, '#key', '');
await click(tab, '#find button');
await tab.waitForFunction(() => document.querySelectorAll('#checks tr').length === 3);

assert.ok(await tab.$eval('#retry', (button) => button.disabled), 'nothing is chosen');
// Not by its place: the rows above may grow meanwhile.
const choose = (what) => tab.$eval(what, (box) => box.click());
await choose('[aria-label="close: no"]');
await new Promise((done) => setTimeout(done, 1500));  // what is chosen stays so
await click(tab, '#retry');
await confirm(tab, '^Retry 2 dead checks \\(close\\)\\?$');
await says(tab, 'live', 'Retry: 2 done');
await tab.waitForSelector('[aria-label="close: no"]', { hidden: true });
await choose('#dead input');
await click(tab, '#delete');
await confirm(tab, '^Delete 1 dead checks');
await says(tab, 'dead', '^$');
tab.said = tab.said.filter((said) => !/ 400 /.test(said));  // the delay 'soon'
await close(tab);
await browser.close();
