import { expect, it } from 'vitest';
import { S3Bucket } from './s3.js';

/** A bucket whose server answers every request with a status. */
function bucketOf(status: number) {
  const requests: string[] = [];
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    requests.push(`${init?.method} ${new URL(String(url)).pathname}`);
    return new Response(null, { status });
  };
  const options = {
    endpoint: 'https://s3.test/',
    bucket: 'b',
    region: 'eu',
    accessKeyId: 'id',
    secretAccessKey: 'key',
  };
  return { bucket: new S3Bucket({ ...options, prefix: 'p/', fetch: fetch as typeof globalThis.fetch }), requests };
}

it.each([403, 503])(
  'takes a status of %i for no answer: neither for an empty list nor for a deletion',
  async (status) => {
    const { bucket } = bucketOf(status);
    const failure = { code: 'NETWORK_ERROR', message: `The file storage answered ${status}` };
    await expect(bucket.keys('', true, 1)).rejects.toMatchObject(failure);
    await expect(bucket.delete('a')).rejects.toMatchObject(failure);
  },
);

it('counts the deletion of a missing object as done', async () => {
  const { bucket, requests } = bucketOf(404);
  await bucket.delete('a b//c?d');
  expect(requests).toEqual(['DELETE /b/p/a%20b//c%3Fd']);
});

it.each(['..', '../../other/a', 'a/./b'])(
  'refuses the key %s, which would name another object or bucket',
  async (key) => {
    const { bucket, requests } = bucketOf(404);
    await expect(bucket.delete(key)).rejects.toThrow('leaves its folder');
    expect(requests).toEqual([]);
  },
);

it('tests the conditions of a bucket again after the server was down', async () => {
  const { bucket, requests } = bucketOf(503);
  for (let tried = 1; tried <= 2; tried += 1) {
    await expect(bucket.conditionsKept()).rejects.toMatchObject({ message: 'The file storage answered 503' });
    expect(requests).toHaveLength(tried);
  }
});
