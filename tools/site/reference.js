// The theme that was chosen in the pages.
const chosen = localStorage['vitepress-theme-appearance'] ?? 'auto'
const dark = matchMedia('(prefers-color-scheme: dark)').matches
if (chosen === 'dark' || (chosen === 'auto' && dark)) document.documentElement.classList.add('dark', 'dark-mode')

addEventListener('DOMContentLoaded', () => {
  for (const code of document.querySelectorAll('pre.fragment')) {
    const text = code.textContent
    const button = Object.assign(document.createElement('button'), { className: 'copy', textContent: 'Copy' })
    button.onclick = () => navigator.clipboard.writeText(text).then(() => { button.textContent = 'Copied' })
    code.prepend(button)
  }
})
