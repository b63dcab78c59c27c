import { EGRESS_KEYS, hostList, integer, path, type ConfigTable } from '@toolfleet/service';

/** Environment keys of the OpenAPI source; spread into the table of the registry. */
export const OPENAPI_SOURCE_KEYS = {
  OPENAPI_ALLOWED_DOMAINS: hostList({
    default: [],
    help: 'Hosts of OpenAPI documents and of the servers they name: host, *.host, host:port, http://host; * needs EGRESS_ALLOW_ANY_HOST',
  }),
  ...EGRESS_KEYS,
  OPENAPI_MAX_SPEC_SIZE: integer({
    default: 32 * 1024 * 1024,
    min: 1_024,
    max: 256 * 1024 * 1024,
    help: 'Largest OpenAPI document in bytes',
  }),
  OPENAPI_FETCH_TIMEOUT: integer({ default: 30, min: 1, max: 600, help: 'Seconds a document may take to arrive' }),
  OPENAPI_REFRESH_SECONDS: integer({
    default: 3_600,
    min: 0,
    max: 604_800,
    help: 'Age at which the document of a spec_url is looked at again; 0 means never',
  }),
  OPENAPI_SPEC_DIR: path({
    optional: true,
    must: 'folder',
    help: 'Directory from which registrations may name documents as file: URLs; unset refuses them',
  }),
} satisfies ConfigTable;
