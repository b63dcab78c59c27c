import { createHash } from 'node:crypto';
import type { IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import type { LogoutForm } from './company-provider.js';
import { escapeHtml, page } from './web.js';

const SUBMIT = 'document.forms[0].submit()';
const SUBMIT_HASH = createHash('sha256').update(SUBMIT).digest('base64');

/** Sends its form by itself, and has a button for browsers without scripts. */
export function logoutPage({ action, fields }: LogoutForm, cookies: string[]): IdentityHttpReply {
  const inputs = Object.entries(fields).map(
    ([name, value]) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`,
  );
  const content =
    `<form method="post" action="${escapeHtml(action)}">${inputs.join('')}` +
    `<button class="primary">Sign out at the provider</button></form><script>${SUBMIT}</script>`;
  // Providers redirect to further hosts, and browsers check those as well. The form's fields are fixed.
  const targets = `'self' https: ${new URL(action).origin}`;
  return page(200, 'Signing out', content, targets, cookies, `'sha256-${SUBMIT_HASH}'`);
}
