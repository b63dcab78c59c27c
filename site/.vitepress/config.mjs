/** The site of the documentation: the Markdown files of the repository, with search, a sidebar and `llms.txt`. */
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { slug } from 'github-slugger';
import { defineConfig } from 'vitepress';
import { addressOf, GROUPS, PAGES, readPage, ROOT, summaryOf, titleOf } from './pages.mjs';

const {
  GITHUB_SERVER_URL = 'https://github.com',
  GITHUB_REPOSITORY,
  GITHUB_SHA = 'main',
  SITE_BASE = '/',
} = process.env;
const onSite = new Set(PAGES);

/** A copy of the pages, because they are built where the packages of the site are found. */
const PAGES_FOLDER = join(ROOT, 'site/build/pages');
rmSync(PAGES_FOLDER, { recursive: true, force: true });
for (const path of [...PAGES, 'docs/pictures']) cpSync(join(ROOT, path), join(PAGES_FOLDER, path), { recursive: true });

export default defineConfig({
  title: 'toolfleet',
  description: 'One API in front of every tool that LLM agents and services call',
  base: SITE_BASE,
  srcDir: PAGES_FOLDER,
  outDir: 'dist',
  cacheDir: 'build/cache',
  rewrites: (path) => (path === 'README.md' ? 'index.md' : path),
  lastUpdated: false,
  markdown: {
    // The anchors of GitHub: links work in both places.
    anchor: { slugify: (text) => slug(text) },
    config: (markdown) => markdown.core.ruler.push('fit to the site', fitToSite),
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: GROUPS.map(({ title, pages }) => ({
      text: title,
      collapsed: pages.length > 12,
      items: pages.map((page) => ({ text: titleOf(page), link: addressOf(page) })),
    })),
    ...(GITHUB_REPOSITORY && {
      socialLinks: [{ icon: 'github', link: `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}` }],
    }),
  },
  async buildEnd({ outDir }) {
    for (const page of PAGES) {
      const target = join(outDir, page);
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, readPage(page));
    }
    writeFileSync(join(outDir, 'llms.txt'), llmsText());
    writeFileSync(
      join(outDir, 'llms-full.txt'),
      PAGES.map((page) => `<!-- ${page} -->\n\n${readPage(page)}`).join('\n\n'),
    );
  },
});

/** Links to files of the repository that are not pages lead to its server; where that is unknown, only their text remains. */
function fitToSite(state) {
  const page = state.env.relativePath === 'index.md' ? 'README.md' : state.env.relativePath;
  for (const block of state.tokens) {
    const { children } = block;
    if (!children) continue;
    for (const [index, token] of children.entries()) {
      // Braces in code are not expressions of Vue.
      if (token.type === 'code_inline') token.attrSet('v-pre', '');
      if (token.type !== 'link_open') continue;
      const href = token.attrGet('href');
      if (/^([a-z]+:|#)/.test(href)) continue;
      const [path, anchor = ''] = href.split('#');
      const target = relative(ROOT, join(ROOT, dirname(page), path));
      if (target === 'README.md') token.attrSet('href', `/${anchor && `#${anchor}`}`);
      if (onSite.has(target) || target === 'README.md') continue;
      if (!existsSync(join(ROOT, target))) throw new Error(`${page}: ${href} does not exist`);
      if (GITHUB_REPOSITORY)
        token.attrSet('href', `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}/blob/${GITHUB_SHA}/${target}`);
      else {
        token.tag = 'span';
        token.attrs = [];
        const close = children.slice(index).find(({ type }) => type === 'link_close');
        close.tag = 'span';
      }
    }
  }
}

/** The list of pages for language models (llmstxt.org). */
function llmsText() {
  const groups = GROUPS.map(
    ({ title, pages }) =>
      `## ${title}\n\n${pages.map((page) => `- [${titleOf(page)}](${SITE_BASE}${page}): ${summaryOf(page)}`).join('\n')}`,
  );
  return `# toolfleet\n\n> One API in front of every tool that LLM agents and services call: authorized, validated, limited, billed and recorded.\n\nAll pages in one file: ${SITE_BASE}llms-full.txt\n\n${groups.join('\n\n')}\n`;
}
