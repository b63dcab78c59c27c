export { HeldToken } from './held-token.js';
export { discoverServer, sameIssuer, type ServerMetadata } from './server-metadata.js';
export { DEFAULT_LIFE_S, toTokens, type Tokens } from './token-answer.js';
export { JWT_BEARER, TOKEN_EXCHANGE, TOKEN_TYPE, TokenClient, type CryptoKeyPair } from './token-client.js';
export { TokenFailure } from './token-failure.js';
