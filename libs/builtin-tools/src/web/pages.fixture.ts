/** Pages of our own with known main text, each built the way a kind of site builds them. */
const SENTENCES = [
  'The harbour was rebuilt in three stages, and each of them changed how the town lived.',
  'Fishing boats, once forty of them, now share the quay with ferries and a research vessel.',
  'Engineers drove oak piles, then steel ones, into ground that nobody had surveyed before.',
  'Local records mention storms, floods and a fire, yet trade returned within months each time.',
  'Today the tide gate closes about twelve times a year, mostly in the winter months.',
  'Plans for the next decade foresee a higher wall, a wider basin and a quieter street.',
];
export const MAIN_TEXT: readonly string[] = [0, 1, 2].flatMap((round) =>
  SENTENCES.map((sentence) => sentence.replace('.', `, as report ${round + 1} says.`)),
);
/** Text that is not the main text of any page. */
export const NOISE_TEXT = [
  'Accept all cookies',
  'Subscribe to our newsletter',
  'You may also like',
  'Copyright 2026 Harbour News',
  'Advertisement',
];

const paragraphs = (tag: string) => MAIN_TEXT.map((sentence) => `<${tag}>${sentence}</${tag}>`).join('\n');
const nav =
  '<nav><ul><li><a href="/">Home</a></li><li><a href="/news">News</a></li><li><a href="/about">About</a></li></ul></nav>';
const footer = '<footer><p>Copyright 2026 Harbour News</p><a href="/imprint">Imprint</a></footer>';
const aside =
  '<aside class="sidebar"><h3>You may also like</h3><ul><li><a href="/a">A</a></li><li><a href="/b">B</a></li></ul><p>Advertisement</p></aside>';
const banner = '<div class="cookie-banner" id="cookie"><p>Accept all cookies</p><button>OK</button></div>';
const form = '<form class="newsletter"><label>Subscribe to our newsletter</label><input></form>';
const page = (body: string) =>
  `<!doctype html><html lang="en"><head><title>The harbour</title><meta name="description" content="A history"><meta property="article:published_time" content="2026-03-01"><link rel="canonical" href="/harbour"></head><body>${body}<script>var x = "Advertisement";</script></body></html>`;

/** Ten ways to build the same article. */
export const ARTICLE_PAGES: readonly (readonly [string, string])[] = [
  ['article element', page(`${nav}<article><h1>The harbour</h1>${paragraphs('p')}</article>${aside}${footer}`)],
  ['main element', page(`${banner}${nav}<main><h1>The harbour</h1>${paragraphs('p')}</main>${footer}`)],
  [
    'class names only',
    page(
      `<div class="header">${nav}</div><div class="content"><div class="post-body"><h1>The harbour</h1>${paragraphs('p')}</div></div><div class="footer">${footer}</div>`,
    ),
  ],
  [
    'layout table',
    page(
      `<table><tr><td class="menu">${nav}</td><td><h1>The harbour</h1>${paragraphs('p')}</td><td>${aside}</td></tr></table>`,
    ),
  ],
  ['divs as paragraphs', page(`${nav}<div id="story">${paragraphs('div')}</div>${aside}${footer}`)],
  [
    'deep nesting',
    page(`${nav}<div><div><div><section><div>${paragraphs('p')}</div></section></div></div></div>${form}${footer}`),
  ],
  [
    'sections with headings',
    page(
      `${nav}<article>${MAIN_TEXT.map((sentence, index) => `<section><h2>Part ${index + 1}</h2><p>${sentence}</p></section>`).join('')}</article>${form}${footer}`,
    ),
  ],
  [
    'advertisements between',
    page(
      `${nav}<article>${MAIN_TEXT.map((sentence, index) => `<p>${sentence}</p>${index % 5 === 4 ? '<div class="ad sponsored">Advertisement</div>' : ''}`).join('')}</article>${footer}`,
    ),
  ],
  [
    'no closing tags',
    page(
      `${nav}<article><h1>The harbour</h1>${MAIN_TEXT.map((sentence) => `<p>${sentence}`).join('\n')}</article>${footer}`,
    ),
  ],
  [
    'comments below',
    page(
      `${nav}<article>${paragraphs('p')}</article><div class="comments"><div class="comment"><p>First!</p></div><div class="comment"><p>Nice.</p></div></div>${form}${footer}`,
    ),
  ],
];
