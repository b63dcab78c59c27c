import { ToolError, type Json } from '@toolfleet/contracts';
import { encodeUnreserved, headerText, type SecurityScheme } from '@toolfleet/openapi';
import { isSealed, secretContext, type SecretBox, type VariableExpander } from '@toolfleet/service';
import { registerSecret } from '@toolfleet/telemetry';
import { chooseCredentials, type Credential } from './choose-credentials.js';
import type { OAuthTokens } from './oauth-tokens.js';
import type { OperationOptions } from './operation-options.js';
import type { OutgoingRequest } from './send-request.js';

/** Resolves configured secrets: `${VAR}` and sealed literals. */
interface SecretSources {
  expander: Pick<VariableExpander, 'expand'>;
  /** Present when `REGISTRY_SECRET_KEY` is set. */
  box?: SecretBox;
}

/** Resolves one configured value of a collection. @throws ToolError AUTH_NOT_CONFIGURED naming what is missing */
function openSecret(
  value: string,
  { collection, registration = collection }: { collection: string; registration?: string | undefined },
  { expander, box }: SecretSources,
): string {
  if (!isSealed(value)) return expander.expand(value);
  if (!box) {
    throw new ToolError('AUTH_NOT_CONFIGURED', {
      message: `AUTH_NOT_CONFIGURED: a secret of ${collection} is sealed and REGISTRY_SECRET_KEY is not set here`,
    });
  }
  try {
    const opened = box.open(value, secretContext('openapi', registration));
    registerSecret(opened);
    return opened;
  } catch (cause) {
    const message = `AUTH_NOT_CONFIGURED: a secret of ${collection} cannot be opened with this REGISTRY_SECRET_KEY`;
    throw new ToolError('AUTH_NOT_CONFIGURED', { message, cause });
  }
}

/**
 * Adds credentials and extra headers to a request right before it is sent. Every resolved secret is registered for redaction, so that an
 * echo of it in a response does not reach the model.
 */
export class Credentials {
  constructor(
    private readonly secrets: SecretSources,
    private readonly tokens: OAuthTokens,
  ) {}

  /** @returns whether an OAuth token was used; a 401 is then retried once with a fresh one */
  async apply(
    request: OutgoingRequest,
    call: {
      collection: string;
      baseUrl: string;
      options: OperationOptions;
      security: SecurityScheme[][] | undefined;
      body: Json | undefined;
      signal: AbortSignal;
      freshToken?: boolean;
    },
  ): Promise<{ usedToken: boolean }> {
    const { registration } = call.options;
    const open = (value: string) => openSecret(value, { collection: call.collection, registration }, this.secrets);
    let usedToken = false;
    for (const credential of chooseCredentials(call.security, call.options)) {
      if (credential.kind === 'oauth2') {
        const { grant } = credential;
        const opened = {
          ...grant,
          // The document is untrusted, so variables in it are not expanded.
          tokenUrl: absoluteUrl(grant.isOfDocument ? grant.tokenUrl : open(grant.tokenUrl), call.baseUrl),
          clientId: open(grant.clientId),
          clientSecret: open(grant.clientSecret),
          refreshToken: grant.refreshToken === undefined ? undefined : open(grant.refreshToken),
        };
        const token = await this.tokens.get(opened, call.signal, call.freshToken ?? false);
        setHeader(request, 'Authorization', `Bearer ${token}`);
        usedToken = true;
      } else applyStatic(request, credential, open);
    }
    for (const [name, value] of Object.entries(call.options.extraHeaders)) {
      setHeader(request, name, fillTemplate(open(value), call.body));
    }
    return { usedToken };
  }
}

/** Resolves a relative token URL against the server; an absolute one is kept as written, for the egress guard to check. */
function absoluteUrl(url: string, baseUrl: string): string {
  return /^[a-z][a-z0-9+.-]*:/i.test(url) ? url : new URL(url, `${baseUrl}/`).href;
}

function applyStatic(
  request: OutgoingRequest,
  credential: Exclude<Credential, { kind: 'oauth2' }>,
  open: (value: string) => string,
): void {
  if (credential.kind === 'bearer') {
    const token = open(credential.token);
    setHeader(request, 'Authorization', /^bearer /i.test(token) ? token : `Bearer ${token}`);
  } else if (credential.kind === 'basic') {
    const pair = `${open(credential.username)}:${open(credential.password)}`;
    const encoded = Buffer.from(pair, 'utf8').toString('base64');
    registerSecret(encoded);
    setHeader(request, 'Authorization', `Basic ${encoded}`);
  } else {
    const value = open(credential.value);
    if (credential.place === 'header') setHeader(request, credential.name, value);
    else if (credential.place === 'query') {
      const pair = `${encodeUnreserved(credential.name)}=${encodeUnreserved(value)}`;
      request.target += `${request.target.includes('?') ? '&' : '?'}${pair}`;
    } else {
      const cookies = request.headers.cookie === undefined ? '' : `${request.headers.cookie}; `;
      setHeader(request, 'Cookie', `${cookies}${credential.name}=${encodeUnreserved(value)}`);
    }
  }
}

function setHeader(request: OutgoingRequest, name: string, value: string): void {
  request.headers[name.toLowerCase()] = headerText(name, value);
}

/** Replaces `{{body.field}}` in an extra header by a scalar of the request body, or by nothing. */
function fillTemplate(template: string, body: Json | undefined): string {
  return template.replace(/\{\{\s*body\.([\w.-]+)\s*\}\}/g, (_, path: string) => {
    let value: Json | undefined = body;
    for (const key of path.split('.')) {
      const isMember =
        typeof value === 'object' && value !== null && !Array.isArray(value) && Object.hasOwn(value, key);
      value = isMember ? (value as { [name: string]: Json })[key] : undefined;
    }
    return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : '';
  });
}
