// Opens each page of build/site in Chromium, on a desk in the light and on a telephone in the dark, and prints what is
// wrong with it: an anchor or a picture that leads nowhere; what the console says; a request to elsewhere; a page wider
// than the telephone; a cell of a table whose text has less than 16 characters of room; a picture whose letters are
// below nine pixels on the telephone; and what axe-core finds, by all rules of WCAG 2.1 AA on a desk, and on a
// telephone by those whose answer may be another there. A page of each kind is opened in the other themes, too. Of the
// reference and of the listings, which are alike, it opens some. It follows all links. Then it searches, and chooses
// the other theme by the switch, which all parts of the site must follow.
import { once } from 'node:events'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { extname } from 'node:path'

const site = 'build/site'
const require = createRequire(`${process.cwd()}/build/site.work/`)
const { default: puppeteer } = await import(require.resolve('puppeteer-core'))
const axe = require.resolve('axe-core/axe.min.js')
// Another theme, and another width, change these answers.
const elsewhere = ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable']
// A page of each kind, for all rules on a telephone, and for the menus, which are the same on all.
const ofEachKind = ['index.html', 'docs/benchmarks.html', 'wheel/index.html',
  'reference/classtiming__wheel_1_1timer.html']
// Which page is among the first three; null as long as no page has the word.
const searches = {
  durable: 'docs/durable', pgbouncer: 'docs/postgres', vacuum: 'docs/postgres', 'half hour': 'docs/tuning',
  'retry dead': 'docs/durable', cascade: 'docs/tuning', wheel: 'docs/wheel', 'stop token': 'docs/coroutines',
  fork: 'docs/process', windows: 'docs/packages', webhook: 'docs/desk', webhooks: 'docs/desk', qwxyz: null,
  'how to cancel': 'docs/which_call', 'cancel a timer': 'docs/which_call', 'repeat every': 'docs/which_call',
  'dead letter': 'docs/durable', python: 'docs/desk',
}
const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }
// How often axe-core has judged the contrast of each look of text: most of its time goes there. A look that it finds
// legible counts as three times, one that it cannot judge, because something covers it, as one.
const desk = { viewport: { width: 1280, height: 900 }, theme: 'light', judged: new Map() }
const telephone = { viewport: { width: 390, height: 800 }, theme: 'dark', judged: new Map() }
const faults = new Set()
let pictures = 0

// Runs in the page.
const look = async () => {
  const images = [...document.images]
  await Promise.all(images.map((image) => image.decode().catch(() => {})))
  const roomOf = (cell) => {
    const { paddingLeft, paddingRight } = getComputedStyle(cell)
    return cell.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)
  }
  const paper = document.createElement('canvas').getContext('2d')
  const widths = new Map()
  const widthOf16 = (cell) => {
    paper.font = getComputedStyle(cell).font
    if (!widths.has(paper.font)) widths.set(paper.font, paper.measureText('0'.repeat(16)).width)
    return widths.get(paper.font)
  }
  // Of the picture's own text, laid out as wide as the picture is.
  const lettersOf = async (image) => {
    const text = await (await fetch(image.src)).text()
    const root = document.body.appendChild(document.createElement('div')).attachShadow({ mode: 'open' })
    root.innerHTML = text
    const { clientWidth: width, clientHeight: height } = image
    root.querySelector('svg').style.cssText = `display:block;width:${width}px;height:${height}px`
    const sizes = [...root.querySelectorAll('text')].map((each) =>
      parseFloat(getComputedStyle(each).fontSize) * Math.hypot(each.getScreenCTM().a, each.getScreenCTM().b))
    root.host.remove()
    return { picture: new URL(image.src).pathname.slice(0, 60), size: Math.min(...sizes) }
  }
  return {
    letters: await Promise.all([...document.querySelectorAll('.vp-doc img')]
      .filter((image) => image.naturalWidth).map(lettersOf)),
    pictures: images.length,
    broken: images.filter((image) => !image.naturalWidth).map((image) => image.src),
    wide: document.documentElement.scrollWidth - innerWidth,
    narrow: [...document.querySelectorAll(':is(.vp-doc, .markdownTable) :is(th, td)')].map((cell) => [cell, cell.innerText])
      .filter(([cell, text]) => text.length > 16 && roomOf(cell) < widthOf16(cell) - 1).map(([, text]) => text),
  }
}

// Runs in the page. The contrast of the first text of each look is that of all others; unless known is null, axe-core
// looks at those that are not known. Returns its violations, and the new looks, without those that it finds illegible.
const judge = async (known, where, options) => {
  const looks = new Map(known?.map((look) => [look, null]))
  const grounds = new Map([[null, 'none']])
  const groundOf = (element) => {
    if (!grounds.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element)
      const hides = backgroundImage === 'none' && /^rgb\(/.test(backgroundColor) && opacity === '1'
      const below = hides ? '' : groundOf(element.parentElement)
      grounds.set(element, [below, backgroundColor, backgroundImage, opacity].join())
    }
    return grounds.get(element)
  }
  for (const element of known ? document.querySelectorAll('body *') : []) {
    const { color, fontSize, fontWeight } = getComputedStyle(element)
    const look = [color, fontSize, fontWeight, groundOf(element)].join()
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && /\S/.test(node.data))
    element.toggleAttribute('data-look', hasText && element.checkVisibility() && !looks.has(look))
    if (element.hasAttribute('data-look')) looks.set(look, element)
  }
  if (known) axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-look]' }] })
  const { violations, incomplete } = await axe.run(where, options)
  const among = (results) => results.filter(({ id }) => id === 'color-contrast')
    .flatMap(({ nodes }) => nodes.map(({ element }) => element))
  const illegible = among(violations)
  const doubtful = among(incomplete)
  return {
    looks: [...looks].filter(([, element]) => element && !illegible.includes(element))
      .map(([look, element]) => [look, doubtful.includes(element) ? 1 : 3]),
    faults: violations.map(({ id, nodes }) => `${id}: ${nodes.length} × ${nodes[0].html.slice(0, 120)}`),
  }
}

async function show(tab, view) {
  await tab.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: view.theme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
  tab.view = view
}

// As a reader comes to it: from one page of the guide to the next by a link, which loads no script again.
async function open(tab, origin, name, guide) {
  if (guide && tab.guide && !ofEachKind.includes(name)) {
    const shown = `/${name}`.replace(/index\.html$/, '').replace(/\.html$/, '').replace(/[./]+/g, '_')
    await tab.evaluate((name) => {
      const link = document.body.appendChild(document.createElement('a'))
      link.href = `/${name}`
      link.click()
      link.remove()
    }, name)
    await tab.waitForSelector(`.vp-doc.${shown}`)
    return
  }
  await tab.goto(`${origin}/${name}`, { waitUntil: 'load' })
  tab.guide = guide
  if (guide) await tab.waitForFunction(() => document.querySelector('#app').__vue_app__)
  if (name.startsWith('wheel/')) {
    await tab.waitForSelector('#app:not([hidden])', { timeout: 5000 }).catch(() => tab.fault('the engines do not run'))
  }
}

async function visit(tab, origin, name, spoil = () => {}) {
  const fault = (what) => faults.add(`${name}: ${what}`)
  tab.fault = fault
  const guide = !/^(reference|source|wheel)\//.test(name)
  const { judged, theme } = tab.view
  const onDesk = tab.view.viewport === desk.viewport
  await open(tab, origin, name, guide)
  await tab.evaluate(spoil)
  const seen = await tab.evaluate(look)
  seen.broken.forEach((picture) => fault(`the picture ${picture} cannot be shown`))
  seen.narrow.forEach((cell) => fault(`a cell is too narrow: ${cell.slice(0, 60)}`))
  if (onDesk) {
    pictures += tab.view === desk ? seen.pictures : 0
  } else {
    if (seen.wide > 0) fault(`it is ${seen.wide} pixels wider than the screen`)
    for (const { picture, size } of seen.letters) {
      if (size < 8.9) fault(`the letters of ${picture} are ${size.toFixed(1)} pixels high`)
    }
  }
  if (!await tab.evaluate(() => 'axe' in window)) await tab.addScriptTag({ url: '/axe.js' })
  const ofKind = ofEachKind.includes(name)
  const known = [...judged.keys()].filter((look) => judged.get(look) >= 3)
  const { looks, faults: found } = await tab.evaluate(judge, ofKind ? null : known,
    { include: [['html']], exclude: ofKind ? [] : [['.VPNav'], ['.VPSidebar']] }, {
      runOnly: onDesk || ofKind ? ['wcag2a', 'wcag2aa', 'wcag21aa'] : elsewhere,
      resultTypes: ['violations', 'incomplete'], selectors: false, preload: false, elementRef: true,
    })
  found.forEach((what) => fault(`axe, ${theme}: ${what}`))
  looks.forEach(([look, times]) => judged.set(look, (judged.get(look) ?? 0) + times))
}

// From the texts of the files: each has its links and its anchors without a script, too.
function follow(texts) {
  const decoded = (text) => text.replaceAll('&amp;', '&')
  const all = (text, pattern) => [...text.matchAll(pattern)].map((match) => decoded(match[1]))
  const ids = new Map([...texts].map(([name, text]) => [name, new Set(all(text, /\s(?:id|name)="([^"]*)"/g))]))
  let links = 0
  for (const [name, text] of texts) {
    for (const link of new Set(all(text, /\s(?:href|src)="([^"]*)"/g))) {
      links += 1
      const { host, protocol, pathname, hash } = new URL(link, `http://here/${name}`)
      if (host !== 'here' && /^(https?|mailto|javascript|data):$/.test(protocol)) continue
      const target = decodeURI(pathname).slice(1).replace(/(^|\/)$/, '$1index.html')
      const anchor = decodeURIComponent(hash.slice(1))
      if (!existsSync(`${site}/${target}`) || (anchor && !ids.get(target)?.has(anchor))) {
        faults.add(`${name}: ${link} leads nowhere`)
      }
    }
  }
  return links
}

// Whether a page of each part of the site is as dark as was chosen.
async function followsTheme(tab, origin, theme) {
  for (const name of ['docs/limits.html', 'reference/index.html', 'wheel/index.html']) {
    tab.fault = (what) => faults.add(`${name}: ${what}`)
    await open(tab, origin, name, false)
    const seen = await tab.evaluate(() => {
      const ground = [document.body, document.documentElement].map((each) => getComputedStyle(each).backgroundColor)
        .find((each) => !/, 0\)$/.test(each))
      return Math.max(...ground.match(/\d+/g).slice(0, 3).map(Number)) > 127 ? 'light' : 'dark'
    })
    if (seen !== theme) tab.fault(`it is ${seen} though ${theme} was chosen`)
  }
}

// To the other theme and back.
async function choose(tab, origin) {
  for (const theme of tab.view.theme === 'light' ? ['dark', 'light'] : ['light', 'dark']) {
    tab.fault = (what) => faults.add(`theme: ${what}`)
    await tab.goto(origin, { waitUntil: 'load' })
    await tab.waitForFunction(() => document.querySelector('#app').__vue_app__)
    const onDesk = tab.view.viewport === desk.viewport
    if (!onDesk) await tab.click('.VPNavBarHamburger')
    await (await tab.waitForSelector(`.VPNav${onDesk ? 'Bar' : 'Screen'}Appearance button`)).click()
    await followsTheme(tab, origin, theme)
  }
}

// Fails if a fault of some kind would not be seen.
async function spoil(tabs, origin) {
  await Promise.all(tabs.map((tab) => visit(tab, origin, 'docs/limits.html', () => {
    document.querySelector('.vp-doc').insertAdjacentHTML('beforeend', `<img src="/none.svg">
      <img src="/wheel/wheel_at_work.svg" style="width:100px">
      <p style="width:500px;color:#eee">wide</p>
      <table><tr><td><p style="width:9ch;overflow:hidden">more than 16 letters</table>`)
    console.error('said')
    setTimeout(() => { throw new Error('thrown') })
    fetch('http://127.0.0.1:9/').catch(() => {})
  })))
  await visit(tabs[0], origin, 'reference/index.html', () => {
    document.body.insertAdjacentHTML('beforeend', '<input>')
  })
  await followsTheme(tabs[0], origin, 'dark')
  follow(new Map([['index.html', '<a href="none.html"></a><a href="#none"></a>']]))
  const seen = [...faults].join()
  for (const fault of ['/none.svg cannot be shown', '/none.svg: 404', 'wider than', 'more than 16', 'color-contrast',
    'letters of /wheel', 'image-alt', 'said', 'thrown', 'asks for http://127.0.0.1:9', 'none.html leads',
    '#none leads', 'reference/index.html: axe, light: label', 'limits.html: it is light',
    'reference/index.html: it is light', 'wheel/index.html: it is light']) {
    if (!seen.includes(fault)) throw new Error(`the check does not see this: ${fault}`)
  }
  faults.clear()
  pictures = 0
  tabs.forEach((tab) => { tab.guide = false })
}

async function search(tab, origin) {
  tab.fault = (what) => faults.add(`search: ${what}`)
  await tab.goto(origin, { waitUntil: 'load' })
  await tab.waitForFunction(() => document.querySelector('#app').__vue_app__)
  await tab.click('#local-search button')
  await tab.waitForSelector('#localsearch-input')
  for (const [words, page] of Object.entries(searches)) {
    const until = (holds, ...of) => tab.waitForFunction(holds, { timeout: 5000 }, ...of).catch(() => null)
    const write = (words) => tab.$eval('#localsearch-input', (field, words) => {
      field.value = words
      field.dispatchEvent(new Event('input'))
    }, words)
    await write('') // so that what is found is not what was found before
    await until(() => !document.querySelector('.VPLocalSearchBox a.result, .VPLocalSearchBox .no-results'))
    await write(words)
    const found = await until((wanted) => {
      const first = [...document.querySelectorAll('.VPLocalSearchBox a.result')].slice(0, 3)
      return wanted ? first.some((link) => link.pathname === `/${wanted}.html`) : document.querySelector('.no-results')
    }, page)
    if (!found) faults.add(`search: ${words}: ${page ?? 'nothing'} is not found`)
  }
}

// As a file, a page has its style, and its addresses lead somewhere.
async function openAsFile(tab, name) {
  tab.fault = () => {}
  await tab.goto(`file://${process.cwd()}/${site}/${name}`, { waitUntil: 'load' })
  await tab.waitForFunction(() => getComputedStyle(document.querySelector('.VPNav')).position === 'fixed',
    { timeout: 5000 }).catch(() => faults.add(`${name}: as a file it has no style`))
  const all = await tab.$$eval('a[href], link[href], img', (all) => all.map(({ href, src }) => href ?? src))
  for (const address of all.filter((each) => each.startsWith('file:'))) {
    if (!existsSync(new URL(address))) faults.add(`${name}: as a file, ${address} leads nowhere`)
  }
}

const names = readdirSync(site, { recursive: true }).filter((name) => name.endsWith('.html') && name !== '404.html')
const server = createServer(async (request, response) => {
  const path = decodeURI(new URL(request.url, 'http://here').pathname)
  const file = path === '/axe.js' ? axe : site + path.replace(/\/$/, '/index.html')
  const body = await readFile(file).catch(() => null)
  const type = types[extname(file)] ?? 'application/octet-stream'
  response.writeHead(body ? 200 : 404, { 'content-type': type, 'cache-control': 'max-age=600' }).end(body)
}).listen(0, '127.0.0.1')
await once(server, 'listening')
const origin = `http://127.0.0.1:${server.address().port}`
const browser = await puppeteer.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] })
try {
  // Doxygen's pages are alike, and so are the listings of sources.
  const visited = names.filter((name) => !/^(reference|source)\//.test(name) ||
    /\/(index|class\w*wheel_1_1(timer|durable_1_1job)|timing__wheel_8hpp|durable_orders.*)\.html|\.json\.html$/.test(name))
  const tabs = await Promise.all([desk, telephone].map(async (view) => {
    const tab = await (await browser.createBrowserContext()).newPage()
    await tab.setViewport(view.viewport)
    await show(tab, view)
    return tab
  }))
  for (const tab of tabs) {
    // VitePress fetches no page ahead for who saves data.
    await tab.evaluateOnNewDocument(() => {
      Object.defineProperty(navigator, 'connection', { value: { saveData: true } })
    })
    tab.on('console', (message) => tab.fault(`console: ${message.text()}`))
    tab.on('pageerror', (error) => tab.fault(`error: ${error.message}`))
    tab.on('response', (response) => response.status() < 400 || tab.fault(`${response.url()}: ${response.status()}`))
    tab.on('request', (request) => {
      if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) {
        tab.fault(`asks for ${request.url()}`)
      }
    })
  }
  await spoil(tabs, origin)
  const links = follow(new Map(names.map((name) => [name, readFileSync(`${site}/${name}`, 'utf8')])))
  await Promise.all(tabs.map(async (tab) => {
    for (const name of visited) await visit(tab, origin, name)
    await show(tab, { ...tab.view, theme: tab.view === desk ? 'dark' : 'light', judged: new Map() })
    for (const name of ofEachKind) await visit(tab, origin, name)
  }))
  await Promise.all([search(tabs[0], origin), choose(tabs[1], origin)])
  await choose(tabs[0], origin)
  for (const name of ['index.html', 'docs/benchmarks.html', 'docs/decisions/index.html']) {
    await openAsFile(tabs[0], name)
  }
  console.log(`${names.length} pages, ${links} links; ${visited.length} pages opened on a desk and a telephone,`,
    `${pictures} pictures; ${Object.keys(searches).length} searches; ${process.uptime().toFixed(0)} s;`,
    `${faults.size} faults`)
} finally {
  await browser.close()
  server.close()
  for (const fault of faults) console.error(fault)
}
process.exitCode = faults.size > 0 ? 1 : 0
