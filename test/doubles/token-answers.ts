/** An answer of a token endpoint. */
interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body: string;
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const json = (body: object): Answer => ({
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

/** Answers that servers send and RFC 6749 section 5.1 does not have, each with the given token. */
export const ODD_ANSWERS: [what: string, answer: (token: string) => Answer][] = [
  ['a list of scopes', (token) => json({ access_token: token, token_type: 'Bearer', scope: ['a', 'b'] })],
  ['members that are null', (token) => json({ access_token: token, token_type: null, scope: null, expires_in: null })],
  ['other tokens that are null', (token) => json({ access_token: token, refresh_token: null, id_token: null })],
  ['no token_type', (token) => json({ access_token: token })],
  ['an own token_type', (token) => json({ access_token: token, token_type: 'BearerToken', expires_in: '3600' })],
  ['status 201', (token) => ({ ...json({ access_token: token, token_type: 'bearer' }), status: 201 })],
  ['a form', (token) => ({ headers: FORM, body: `access_token=${token}&token_type=bearer&scope=a&expires_in=3600` })],
  ['a form as text', (token) => ({ headers: { 'content-type': 'text/plain' }, body: `access_token=${token}` })],
];

/** Refusals of a client in other forms than RFC 6749 section 5.2; each says `invalid_client`. */
export const ODD_REFUSALS: [what: string, answer: Answer][] = [
  ['with status 200', json({ error: 'invalid_client', error_description: 'no such client' })],
  ['in a form', { status: 400, headers: FORM, body: 'error=invalid_client' }],
  [
    'with a challenge',
    {
      ...json({ error: 'invalid_client' }),
      status: 401,
      headers: { 'content-type': 'application/json', 'www-authenticate': 'Basic realm="r"' },
    },
  ],
];
