export * from './held-token.js';
export * from './server-metadata.js';
export * from './token-answer.js';
export * from './token-client.js';
export * from './token-failure.js';
