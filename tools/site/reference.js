// The theme that was chosen in the pages.
const chosen = localStorage['vitepress-theme-appearance'] ?? 'auto'
const dark = matchMedia('(prefers-color-scheme: dark)').matches
document.documentElement.classList.toggle('dark', chosen === 'dark' || (chosen === 'auto' && dark))
