import { expect, it } from 'vitest';
import { isRandomText, plainName, secretName } from './secret-names.js';

const SECRET =
  'password passwd pwd passphrase passcode secret token bearer jwt cookie cookies pin otp totp cvv cvc ssn credential credentials authorization apikey api_key accessKey secret_key PRIVATE_KEY signingKey encryption-key clientSecret client_secret ClientSecret access_token refreshToken idToken x-auth-token X-Api-Key APIKey proxy-authorization Set-Cookie session_token csrfToken connectionString DB_PASSWORD userPassword githubToken password2 passwordHash password_confirmation new.password dbpassword accesstoken otpCode';
const OPEN =
  'user name tokens max_tokens nextPageToken page_token continuation-token progressToken author description spinning pinned compass tokenizer monkey keyboard secretary cookie_policy password_policy id status';
const LABELS = 'key cache_key auth sig signature session code';

it.each(SECRET.split(' '))('%s names a secret', (name) => expect(secretName(name)).toBe('secret'));
it.each(OPEN.split(' '))('%s names none', (name) => expect(secretName(name)).toBeUndefined());
it.each(LABELS.split(' '))('%s names one if its value looks random', (name) => expect(secretName(name)).toBe('label'));

it('case and separators do not count', () => {
  expect(['client_secret', 'clientSecret', 'Client-Secret', 'CLIENT.SECRET'].map(plainName)).toEqual(
    Array(4).fill('clientsecret'),
  );
});

it.each([
  ['kX9v2LmQ7rT4wZ8pB3nC6yH1', true],
  ['9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', true],
  ['550e8400-e29b-41d4-a716-446655440000', false],
  ['customers/2026/invoices/march', false],
  ['short1', false],
  ['this is a sentence with 1 number', false],
])('%s looks random: %s', (text, expected) => expect(isRandomText(text)).toBe(expected));
