/**
 * Skills of MCP servers (SEP-2640): folders of files for models. A server lists each skill with its front matter and the digest of every
 * file, so that hosts can check files. Files are read as resources.
 */
import { hash } from 'node:crypto';
import { isJsonObject, jsonObject, type Json, type JsonObject } from '@toolfleet/base/json';
import { toFleetAddress } from './resource-address.js';

/** File of a skill that its address names. */
const MANIFEST = /SKILL\.md$/;

/** The entry of a skill with addresses of the fleet. Front matter, digests and sizes stay as they are. */
export function toFleetSkill(skill: JsonObject, authority: string | undefined): JsonObject {
  const toFleetFile = (file: Json): Json =>
    isJsonObject(file) ? { ...file, uri: toFleetAddress(String(file['uri']), authority) } : file;
  const { uri, resources } = skill;
  return jsonObject({
    ...skill,
    uri: toFleetAddress(String(uri), authority),
    resources: Array.isArray(resources) ? resources.map(toFleetFile) : undefined,
  });
}

/** Prefix of the addresses of a skill's files, by its address (of its main file). */
export function skillFolder(uri: string): string {
  return uri.replace(MANIFEST, '');
}

/** The path of a skill at its server: `acme/refunds` for an address that begins with `skill://acme/refunds/`. */
export function skillPath(uri: string): string {
  return skillFolder(uri)
    .replace(/^[^:]*:\/*/, '')
    .replace(/\/$/, '');
}

/** Whether contents of a resource are a file of a skill, as its entry lists it. Files of a skill with `dynamic` files have no digests. */
export function isFileOf({ uri: manifest, resources }: JsonObject, uri: string, { text, blob }: JsonObject): boolean {
  if (resources === 'dynamic') return uri.startsWith(skillFolder(String(manifest)));
  const bytes = typeof text === 'string' ? text : Buffer.from(String(blob ?? ''), 'base64');
  const digest = `sha256:${hash('sha256', bytes, 'hex')}`;
  return (
    Array.isArray(resources) &&
    resources.some((file) => isJsonObject(file) && file['uri'] === uri && file['digest'] === digest)
  );
}
