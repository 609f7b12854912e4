// The pages by VitePress, from build/site.work/pages, where `make` has put them. They are written for a code host, so:
// links to sources go to their listings or to the reference, and names in code to the reference.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { posix as path } from 'node:path'

const work = 'build/site.work'

const sidebar = {
  Begin: 'getting_started which_call recipes errors why_not',
  'In memory': 'wheel asio coroutines execution tuning which_wheel many_cores process',
  'In a database': 'durable postgres desk scale upgrading',
  'Operate and install': 'metrics tracing packages',
  'Coming from': 'coming_from/side_by_side coming_from/peers',
  Decide: 'guarantees how_it_is_tested limits benchmarks beside_other_timers coming_from/brpc_and_trantor',
  'Change it': 'CONTRIBUTING design concurrency durable_protocol',
  Decisions: 'decisions/index decisions/engine decisions/service decisions/database decisions/platforms decisions/measured',
}
for (const file of readdirSync(`${work}/pages/docs`, { recursive: true })) {
  if (file.endsWith('.md') && !Object.values(sidebar).join(' ').split(' ').includes(file.slice(0, -3))) {
    throw new Error(`docs/${file} has no place in the side bar, see tools/site/config.mjs`)
  }
}

const title = (page) => /^# (.*)$/m.exec(readFileSync(`${work}/pages/${page}.md`, 'utf8'))[1].replace(/: .*|`/g, '')

// From a header's path to its page, and from each name, however much of its scope is told, to its place: null if
// several things have that name.
const headers = new Map()
const names = new Map()

function addName(whole, place) {
  const parts = whole.split('::')
  parts.forEach((_, first) => {
    const name = parts.slice(first).join('::')
    const known = names.get(name)
    if (known === undefined) names.set(name, { whole, place })
    else if (known?.whole !== whole) names.set(name, null)
  })
}

for (const [, kind, compound] of readFileSync(`${work}/names.xml`, 'utf8')
  .matchAll(/<compound kind="(\w+)".*?>(.*?)<\/compound>/gs)) {
  const tag = (name, text = compound) => text.match(`<${name}>(.*?)</${name}>`)?.[1] ?? ''
  const page = tag('filename').replace(/(\.html)?$/, '.html')
  if (kind === 'file' || kind === 'dir') {
    headers.set(path.relative(process.cwd(), path.join(tag('path'), kind === 'file' ? tag('name') : '')), page)
    continue
  }
  addName(tag('name'), page)
  for (const [member] of compound.matchAll(/<member .*?<\/member>/gs)) {
    const name = tag('name', member)
    if (/^\w+$/.test(name) && !tag('name').endsWith(`::${name}`)) {
      addName(`${tag('name')}::${name}`, `${tag('anchorfile', member)}#${tag('anchor', member)}`)
    }
  }
}

// `timing_wheel::timer`, `schedule_at(…)`, `timer.schedule_at(…)`, and a class alone, but no word that may be another.
function placeOf(code) {
  const name = /^([a-z]\w*(?:(?:::|\.|->)\w+)*)(?:[({<&]|$)/.exec(code)?.[1] ?? ''
  const place = names.get(name.replace(/\.|->/g, '::'))?.place
  return (/_|::|\.|>/.test(name) || /^(class|struct)/.test(place)) && name !== 'timing_wheel' ? place : undefined
}

// Undefined for what the site does not have.
function targetOf(page, link) {
  if (/^([a-z]+:|#)/.test(link)) return link
  if (link.endsWith('tools/wheel/index.html')) return '/wheel/index.html'
  const [file, anchor] = link.split('#')
  const target = path.join(path.dirname(page), file).replace(/\/$/, '')
  const found = [target.replace(/(^|\/)README\.md$/, '$1index.md'), `${target}/index.md`, `source/${target}.md`]
    .find((each) => each.endsWith('.md') && existsSync(`${work}/pages/${each}`))
  if (found) return `/${found}${anchor ? `#${anchor}` : ''}`
  return headers.has(target) ? `/reference/${headers.get(target)}` : undefined
}

// How wide a picture is if its smallest letters have nine pixels: less is hard to read.
function widthOf(page, source) {
  const text = readFileSync(path.join(work, 'pages', path.dirname(page), source), 'utf8')
  const sizes = [...text.matchAll(/font(?:-size)?[:=]\s*"?([\d.]+)/g)].map(([, size]) => Number(size))
  return Math.ceil(/viewBox="0 0 ([\d.]+)/.exec(text)[1] * 9 / Math.min(...sizes))
}

// True if it has a picture.
function setPictures(token, page) {
  if (token.type === 'image') token.attrSet('style', `--legible: ${widthOf(page, token.attrGet('src'))}px`)
  if (!/^html_(inline|block)$/.test(token.type)) return token.type === 'image'
  token.content = token.content.replace(/(<img [^>]*?src=")([^":]+)"/g, (_, head, source) =>
    `${head}./${source}" style="--legible: ${widthOf(page, source)}px"`)
  return token.content.includes('<img ')
}

function inline(state, children, heading) {
  const links = []
  return children.flatMap((token) => {
    if (token.type === 'link_open') {
      links.push(token)
      const target = targetOf(state.env.relativePath, token.attrGet('href'))
      token.attrSet('href', target)
      if (!target) Object.assign(token, { tag: 'span', attrs: null })
      else if (/^\/(reference|wheel)\//.test(target)) token.attrSet('target', '_self')
    } else if (token.type === 'link_close') {
      token.tag = links.pop().tag
    } else if (token.type === 'text') { // a number stays on one line, with its unit
      token.content = token.content.replace(/(?<=\d) (?=\d{3}\b|[µkM%×]|[nm]s\b|bytes\b)/g, '\u00a0')
    } else if (token.type === 'code_inline') {
      token.attrSet('v-pre', '')
      const place = placeOf(token.content)
      if (place && !heading && links.length === 0) {
        const open = new state.Token('link_open', 'a', 1)
        open.attrs = [['href', `/reference/${place}`], ['target', '_self']]
        return [open, token, new state.Token('link_close', 'a', -1)]
      }
    }
    return [token]
  })
}

// How many characters a reader sees, without addresses and comments.
const lengthOf = (cell) => cell.children.filter(({ type }) => /^(text|code_inline)$/.test(type))
  .reduce((sum, { content }) => sum + content.length, 0)

function change(state) {
  state.tokens = inline(state, state.tokens)
  state.tokens.forEach((token, i) => {
    // What scrolls is reached by keys.
    const { relativePath } = state.env
    if ((token.children ?? [token]).filter((each) => setPictures(each, relativePath)).length > 0) {
      if (token.children) state.tokens[i - 1].attrs = [['class', 'pictures'], ['tabindex', '0']]
      else token.content = `<div class="pictures" tabindex="0">${token.content}</div>\n`
    }
    if (token.type === 'table_open') token.attrSet('tabindex', '0')
    if (/^t[hd]_open$/.test(token.type)) {
      const length = lengthOf(state.tokens[i + 1])
      if (length > 16) token.attrJoin('class', length > 80 ? 'text long' : 'text')
    }
    if (token.children) token.children = inline(state, token.children, state.tokens[i - 1].type === 'heading_open')
  })
}

// A word with hyphens, such as an option of a command, stays in one piece in code.
function setCode(md) {
  const { code_inline: as } = md.renderer.rules
  md.renderer.rules.code_inline = (...token) => as(...token).replace(/>[^<]*</, (text) =>
    text.replace(/[\w-]*-\w[\w-]*/g, '<span class="word">$&</span>'))
}

// A browser runs no modules from a file. There each page shows its text, with addresses that begin at the page.
const asFile = ({ pageData }) => [['script', {}, `if (location.protocol === 'file:') {
  document.documentElement.classList.add('file')
  addEventListener('DOMContentLoaded', () => ['href', 'src'].forEach((name) => {
    document.querySelectorAll('[' + name + '^="/"]').forEach((element) => {
      const address = element.getAttribute(name).replace(/\\/(?=#|$)/, '/index.html')
      element.setAttribute(name, '.${'/..'.repeat(pageData.relativePath.split('/').length - 1)}' + address)
    })
  }))
}`]]

// All of the words that say something. A page that has the word for a name comes first, then the list of calls; what is
// for those who change the library comes last.
const searchOptions = {
  combineWith: 'AND',
  processTerm: (term) => (/^(a|an|the|to|of|how|do|does|can|i)$/i.test(term) ? null : term.toLowerCase()),
  boost: { title: 6, titles: 2, text: 2 },
  boostDocument: (id, term) => (id.split(/[/.]/).includes(term) ? 8 : id.includes('which_call') ? 1.5 : 1) *
    (/CHANGELOG|CONTRIBUTING|design|SECURITY|guarantees|concurrency|decisions|protocol/.test(id) ? 0.3 : 1),
}

export default {
  title: 'timing_wheel',
  description: 'Hierarchical timing wheels for C++20: schedule and cancel millions of timers in O(1)',
  srcDir: 'pages',
  outDir: '../site',
  ignoreDeadLinks: [/^\/(reference|wheel)\//], // not by VitePress; check.mjs follows them
  head: [['link', { rel: 'icon', href: '/icon.svg' }]],
  transformHead: asFile,
  // These are in no order with the others.
  transformPageData: ({ relativePath, frontmatter }) => {
    if (/^(SECURITY|CHANGELOG)/.test(relativePath)) Object.assign(frontmatter, { prev: false, next: false })
  },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, '').replaceAll(' ', '-') },
    attrs: { disable: true },
    config: (md) => {
      md.core.ruler.push('code_host', change)
      setCode(md)
    },
  },
  themeConfig: {
    nav: [
      { text: 'The wheel', link: '/wheel/index.html', target: '_self' },
      { text: 'Reference', link: '/reference/', target: '_self' },
      { text: 'Changes', link: '/CHANGELOG' },
      { text: 'Security', link: '/SECURITY' },
    ],
    sidebar: Object.entries(sidebar).map(([text, pages]) => ({
      text,
      items: pages.split(' ').map((page) => (
        { text: title(`docs/${page}`), link: `/docs/${page.replace(/index$/, '')}` })),
    })),
    outline: [2, 3],
    search: { provider: 'local', options: { miniSearch: { searchOptions } } },
  },
}
