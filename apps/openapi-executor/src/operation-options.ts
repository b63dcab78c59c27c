import { isJsonObject, type JsonObject } from '@toolfleet/contracts';
import { openapiResponseLimit } from '@toolfleet/contracts/subjects';

/** Auth types of a collection: `auth_type` of the configuration file. */
type AuthType = 'none' | 'api_key' | 'bearer' | 'basic' | 'oauth2';

/** Options of a binding as the registry stored them; secrets are still `${VAR}` or sealed. */
export interface OperationOptions {
  authType: AuthType;
  authConfig: JsonObject;
  /** Added last, after authentication. */
  extraHeaders: { [name: string]: string };
  vendorAdapter?: string;
  /** Source whose sealed secrets these options hold; absent without sealed secrets. */
  registration?: string;
  /** Maximum number of bytes of a response that are read, after decompression. */
  maxResponseBytes: number;
}

const AUTH_TYPES: ReadonlySet<string> = new Set(['none', 'api_key', 'bearer', 'basic', 'oauth2']);

/** Reads the options of a binding. Unknown fields are ignored; `vendor_adapter` wins over `auth_config.vendor`. */
export function readOptions(options: JsonObject | undefined): OperationOptions {
  const source = options ?? {};
  const authConfig = isJsonObject(source.auth_config) ? source.auth_config : {};
  const headers = { ...stringMap(authConfig.extra_headers), ...stringMap(source.extra_headers) };
  const vendor = [source.vendor_adapter, authConfig.vendor].find((name) => typeof name === 'string' && name !== '');
  return {
    authType: AUTH_TYPES.has(String(source.auth_type)) ? (source.auth_type as AuthType) : 'none',
    authConfig,
    extraHeaders: headers,
    vendorAdapter: typeof vendor === 'string' ? vendor : undefined,
    registration: typeof source.registration === 'string' ? source.registration : undefined,
    maxResponseBytes: openapiResponseLimit(source.max_response_bytes),
  };
}

function stringMap(value: unknown): { [name: string]: string } {
  if (!isJsonObject(value)) return {};
  const entries = Object.entries(value).filter(([, item]) => ['string', 'number', 'boolean'].includes(typeof item));
  return Object.fromEntries(entries.map(([name, item]) => [name, String(item)]));
}
