import { isJsonObject, type ContentBlock, type Json, type JsonObject } from '@toolfleet/contracts';
import { toFleetAddress } from '@toolfleet/contracts/resource-address';

/**
 * A content block with addresses of the fleet in links and embedded resources, so that clients can read them through it. Addresses of
 * web pages stay: clients open them themselves.
 */
export function toFleetBlock(block: ContentBlock, authority: string | undefined): ContentBlock {
  if (block['type'] === 'resource_link')
    return isWebPage(block) ? block : (withFleetAddress(block, authority) as ContentBlock);
  const { resource } = block;
  if (block['type'] !== 'resource' || !isJsonObject(resource) || isWebPage(resource)) return block;
  return { ...block, resource: withFleetAddress(resource, authority) };
}

function isWebPage({ uri }: JsonObject): boolean {
  return typeof uri === 'string' && /^https?:/i.test(uri);
}

/** A value with the address of the fleet in `uri`. */
export function withFleetAddress(content: Json, authority: string | undefined): Json {
  if (!isJsonObject(content) || typeof content['uri'] !== 'string') return content;
  return { ...content, uri: toFleetAddress(content['uri'], authority) };
}
