/** The console in a page of a real browser, with what must never happen on the way. */
import axe, { type AxeResults } from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

/** A refusal of the key is an answer that browsers report as an error of loading. */
const EXPECTED = /Failed to load resource: the server responded with a status of (400|401|402|403|404|429)/;

/** One tab, and everything in it that a user or an attacker would notice. */
export class ConsolePage {
  /** Errors of scripts, refusals of the security policy, and requests to anyone but the gateway. */
  readonly troubles: string[] = [];

  private constructor(
    readonly page: Page,
    private readonly url: string,
  ) {
    page.on('pageerror', (error) => this.troubles.push(`error: ${error.message}`));
    page.on('console', (message) => {
      if (message.type() !== 'error' || EXPECTED.test(message.text())) return;
      this.troubles.push(`${message.text()} ${message.location().url}`);
    });
    page.on('request', (request) => {
      // Pictures of results are read from memory.
      const address = request.url().replace(/^blob:/, '');
      if (!address.startsWith(`${url}/`)) this.troubles.push(`asked ${request.url()}`);
    });
  }

  static async open(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<ConsolePage> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const tab = new ConsolePage(page, url);
    await page.goto(`${url}/console`);
    return tab;
  }

  async signIn(key: string): Promise<void> {
    await this.page.getByLabel('API key').fill(key);
    await this.page.getByRole('button', { name: /^Sign in( with a key)?$/ }).click();
  }

  /** Goes to a place and waits until its title is there. */
  async go(place: string, heading: string): Promise<void> {
    await this.page.goto(`${this.url}/console#/${place}`);
    await this.page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
  }

  /** Waits until nothing is being loaded. */
  async settled(): Promise<void> {
    await this.page.getByText('Loading…').first().waitFor({ state: 'detached' });
  }

  /** Serious faults axe finds on what is shown now. */
  async accessibilityFaults(): Promise<string[]> {
    await this.page.evaluate(axe.source);
    const results = await this.page.evaluate<AxeResults>('axe.run(document)');
    return results.violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${String(node.target)}`));
  }

  /** Short words that are broken over two lines in too narrow columns. */
  brokenWords(): Promise<string[]> {
    return this.page.evaluate(`(() => {
      const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
      const broken = [];
      while (texts.nextNode()) {
        const { currentNode: node } = texts;
        for (const { 0: word, index } of node.data.matchAll(/(?<!\\S)\\p{L}{2,12}(?!\\S)/gu)) {
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + word.length);
          const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
          if (lines.size > 1) broken.push(word);
        }
      }
      return broken;
    })()`);
  }

  /** Pixels by which the page is wider than its window. */
  overflow(): Promise<number> {
    return this.page.evaluate('document.documentElement.scrollWidth - innerWidth');
  }

  async close(): Promise<void> {
    await this.page.context().close();
  }
}
