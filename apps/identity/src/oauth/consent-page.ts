import type { IdentityHttpReply } from '@toolfleet/contracts/sign-in';
import type { SignedInUser } from '../sign-in/user-of-claims.js';
import { foreignText, page } from '../sign-in/web.js';

/** The question to a user. */
interface ConsentQuestion {
  client: { clientId: string; clientName?: string | undefined };
  redirectUri: string;
  resource: string;
  user: SignedInUser;
}

/**
 * Asks a user whether a client may act for them. The client chooses its name; the address that gets the answer is what
 * counts, so both are shown.
 */
export function consentPage({ client, redirectUri, resource, user }: ConsentQuestion): IdentityHttpReply {
  const target = URL.parse(redirectUri);
  const isWeb = target?.protocol === 'https:' || target?.protocol === 'http:';
  const goesTo = !target ? redirectUri : isWeb ? target.host : `${target.protocol} on this computer`;
  const isDocument = client.clientId.startsWith('https://');
  const rows = [
    ['Application', `${client.clientName ?? 'without a name'} (its own words)`],
    ['Described at', isDocument ? client.clientId : 'nowhere; it registered itself'],
    ['Sends you to', goesTo],
    ['For', resource],
    ['You are', `${user.userId} of ${user.tenantId}`],
  ];
  const list = rows.map(([name, value]) => `<dt>${name}</dt><dd>${foreignText(value!)}</dd>`).join('');
  const content =
    '<p>It will be able to call tools over MCP as you, with your limits and budgets. Allow only what you started yourself.</p>' +
    `<dl>${list}</dl><form method="post"><button class="primary" name="decision" value="allow">Allow</button>` +
    '<button name="decision" value="deny">Deny</button></form>';
  // Browsers check the redirect after the form as well.
  const next = !target ? '' : isWeb ? ` ${target.origin}` : ` ${target.protocol}`;
  return page(200, 'Connect an application?', content, `'self'${next}`);
}
