/**
 * `.toolfleet/env`: address and key of the running fleet for the shell of a user. Its names are not those that `npm start` reads
 * (`NATS_URL` names brokers to use in place of its own): a shell, a `.env` or another clone that has them outlives the fleet.
 */
const FIELDS = {
  TOOLFLEET_URL: 'url',
  TOOLFLEET_API_KEY: 'api_key',
  TOOLFLEET_NATS_URL: 'nats_url',
  TOOLFLEET_REDIS_URL: 'redis_url',
};

/** Variables for clients of a fleet, by name. @param {Record<string, string>} fleet what `startFleet` returned */
export function clientVariables(fleet) {
  return Object.fromEntries(Object.entries(FIELDS).map(([name, field]) => [name, fleet[field]]));
}

/** Text of the file that a shell reads from `path`. */
export function shellFile(path, fleet) {
  const lines = Object.entries(clientVariables(fleet)).map(([name, value]) => `export ${name}='${value}'`);
  return `# Addresses and key of the running fleet: . ${path}
${lines.join('\n')}
# api <path> <options of curl>: a request to /api/v1/<path> with the key
api() {
  curl -s "$TOOLFLEET_URL/api/v1/$@" -H "Authorization: Bearer $TOOLFLEET_API_KEY" -H 'Content-Type: application/json'
  echo
}
# tool <name> <arguments as JSON>: calls a tool
tool() {
  api "tools/$1/execute" -d "{\\"arguments\\": $2}"
}
`;
}
