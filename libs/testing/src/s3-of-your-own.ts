/**
 * An S3 server the tests of workspaces run on beside their own: `S3_TEST_ENDPOINT`, `S3_TEST_KEY_ID` and `S3_TEST_SECRET`. Its
 * bucket has the name `bucket`; it has to keep conditions of PUT. Undefined where none is named.
 */
export const S3_OF_YOUR_OWN = named(process.env);

function named(env: NodeJS.ProcessEnv) {
  const { S3_TEST_ENDPOINT: endpoint, S3_TEST_KEY_ID: accessKeyId, S3_TEST_SECRET: secretAccessKey } = env;
  if (!endpoint || !accessKeyId || !secretAccessKey) return undefined;
  return { endpoint: new URL(endpoint).origin, accessKeyId, secretAccessKey };
}
