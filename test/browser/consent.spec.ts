/** The consent page in a real Chromium: an application signs its user in by the address of `/mcp` alone. */
import { auth } from '@modelcontextprotocol/client';
import { FakeClock } from '@toolfleet/testing';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SignInFixture } from '../../apps/identity/spec/sign-in.fixture.js';
import { OAuthClientDouble } from '../doubles/oauth-client.js';
import { findChromium, launchChromium } from './chromium.js';

const CHROMIUM = findChromium();

describe.skipIf(CHROMIUM === undefined)('the consent page', () => {
  let fixture: SignInFixture;
  let browser: Browser;

  beforeAll(async () => {
    fixture = await SignInFixture.start(new FakeClock(Date.now()), { clients: { registration: true } });
    browser = await launchChromium(CHROMIUM!);
  });
  afterAll(async () => {
    await browser?.close();
    await fixture?.stop();
  });

  /** Goes to the consent page of a new client. @returns the page, and the parameters that the client gets after the answer */
  async function asked(client: OAuthClientDouble) {
    expect(await auth(client, { serverUrl: `${fixture.origin}/mcp` })).toBe('REDIRECT');
    const page = await (await browser.newContext()).newPage();
    await page.route(`${client.redirectUrl}**`, (route) => route.fulfill({ body: 'Back in the application' }));
    await page.goto(client.authorizationUrl!.href);
    await page.getByRole('heading', { name: 'Connect an application?' }).waitFor();
    const answer = async () => {
      await page.getByText('Back in the application').waitFor();
      return new URL(page.url()).searchParams;
    };
    return { page, answer };
  }

  it('gives a code that the client redeems, and sends the browser back to it', async () => {
    const client = new OAuthClientDouble();
    const { page, answer } = await asked(client);
    await page.getByRole('button', { name: 'Allow' }).click();
    const parameters = await answer();
    const [authorizationCode, iss] = [parameters.get('code')!, parameters.get('iss')!];
    expect(await auth(client, { serverUrl: `${fixture.origin}/mcp`, authorizationCode, iss })).toBe('AUTHORIZED');
    expect((await fixture.pages.findClient(client.kept!.access_token)).session).toMatchObject({ user_id: 'alice' });
    await page.context().close();
  });

  it('tells the client of a refusal', async () => {
    const { page, answer } = await asked(new OAuthClientDouble());
    await page.getByRole('button', { name: 'Deny' }).click();
    expect((await answer()).get('error')).toBe('access_denied');
    await page.context().close();
  });

  it('cannot be shown in a frame of another page', async () => {
    const { page } = await asked(new OAuthClientDouble());
    const other = await page.context().newPage();
    await other.setContent(`<iframe src="${page.url()}"></iframe>`);
    await expect.poll(() => other.frames()[1]?.url()).toMatch(/^chrome-error:/);
    await page.context().close();
  });
});
