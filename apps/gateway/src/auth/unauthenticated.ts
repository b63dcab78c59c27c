import { ToolError } from '@toolfleet/contracts';

/** The one answer to every failed authentication: it never tells which part of a credential was wrong. */
export function unauthenticated(): ToolError {
  return new ToolError('UNAUTHENTICATED', { message: 'Missing or invalid credentials.' });
}
