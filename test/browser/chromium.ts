/** The Chromium that is on this machine; nothing is downloaded. */
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

const USUAL = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome-stable',
  '/usr/bin/google-chrome',
  '/snap/bin/chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
];

/** Nothing but what a page asks for: no profile, no service of its vendor, no network except loopback. */
const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** `CHROMIUM_PATH`, else the first of the usual places; undefined where there is none. */
export function findChromium(): string | undefined {
  return process.env['CHROMIUM_PATH'] || USUAL.find((path) => existsSync(path));
}

/** Starts it. */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: ARGUMENTS });
}
