import { actsInPerson, personOf, toMaker, ToolError, type Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';

/**
 * True when a glob of the credential matches the tool's name or one of its aliases. Every credential may use `read_result`: it
 * returns only results of tools that it may use.
 */
export function mayUse(
  globs: readonly string[],
  tool: Pick<RegisteredTool, 'name' | 'aliases'> & Partial<Pick<RegisteredTool, 'binding'>>,
): boolean {
  if (tool.binding?.kind === 'result') return true;
  return toolAllowed(globs, tool.name) || (tool.aliases?.some((alias) => toolAllowed(globs, alias)) ?? false);
}

/** True when the tool requires no role, or the principal has one of the required roles. */
export function hasRequiredRole(
  { roles }: Pick<Principal, 'roles'>,
  { required_roles: required }: Pick<RegisteredTool, 'required_roles'>,
): boolean {
  return !required?.length || required.some((role) => roles.includes(role));
}

/** Whether a kind of caller presented a credential. Tools that act for a caller have its answer in `authenticated`. */
const PRESENTS_CREDENTIAL: Record<Principal['via'], boolean> = {
  api_key: true,
  jwt: true,
  session: true,
  oauth: true,
  nats_subject: false,
  local: false,
  delegation: false,
};

/** True when the caller, or the one it calls for, presented a credential: a key, a token or a session. */
export function isAuthenticated({ via, authenticated }: Pick<Principal, 'via' | 'authenticated'>): boolean {
  return authenticated ?? PRESENTS_CREDENTIAL[via];
}

/** True when one of the globs matches the tool name. `*` matches any run of characters; all others match themselves. */
export function toolAllowed(globs: readonly string[], name: string): boolean {
  for (const glob of globs)
    if (glob === '*' || glob === name || (glob.includes('*') && matches(glob, name))) return true;
  return false;
}

/**
 * Intersects two lists of globs. A glob that matches the text of another one covers it (a `*` matches a `*`), so the result never
 * allows too much. Globs that merely overlap (`a*` and `*b`) are both dropped: a refusal instead of a guess.
 */
export function narrowGlobs(held: readonly string[], wanted: readonly string[]): string[] {
  const kept = [
    ...wanted.filter((glob) => toolAllowed(held, glob)),
    ...held.filter((glob) => toolAllowed(wanted, glob)),
  ];
  return [...new Set(kept)];
}

/** The properties of a call that decide on its owner. */
export interface MadeCall {
  tenantId: string;
  /** `toMaker` the principal that made it; absent where that was not recorded. */
  maker?: string | undefined;
  /** The user it was made for. */
  userId?: string | undefined;
}

/**
 * True when a call is the caller's own: the same key made it, or it was made for the user who calls: signed in, with a token, or with a key
 * that the user or an operator made. A key that an administrator made counts as the administrator, whatever user it names. A tool acts as
 * the caller that it was called by.
 */
export function ownsCall(caller: Principal, { tenantId, maker, userId }: MadeCall): boolean {
  if (tenantId !== caller.tenantId) return false;
  if (maker === toMaker(caller)) return true;
  const person = personOf(caller);
  return userId === caller.userId && person?.userId === userId && person.tenantId === tenantId;
}

/**
 * Refuses a key that anyone else made in the name of its user, wherever something is personal to the user: its accounts at sources.
 * Delegated callers are who called their tool.
 * @throws ToolError PERMISSION_DENIED
 */
export function requireInPerson(caller: Principal): void {
  if (actsInPerson(caller)) return;
  const { userId } = caller;
  const maker = personOf(caller)?.userId ?? 'another user';
  throw new ToolError('PERMISSION_DENIED', {
    message: `This needs ${userId} in person, and the key was created by ${maker}. ${userId} signs in, or uses a key that ${userId} or an operator created; services use the key of a service account.`,
  });
}

/** The calls that are a caller's own (`ownsCall`), as a filter of stores: by this user, and by this key. */
export function ownCalls(caller: Principal): { user_id?: string; key_id?: string } {
  const { tenantId, userId, keyId } = caller;
  const isUser = keyId === undefined || ownsCall(caller, { tenantId, userId });
  return { user_id: isUser ? userId : undefined, key_id: keyId };
}

/** Takes the first occurrence of each part between two stars: linear in the name, for any pattern. */
function matches(glob: string, name: string): boolean {
  const parts = glob.split('*');
  const first = parts[0]!;
  const last = parts.at(-1)!;
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  let at = first.length;
  const end = name.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
