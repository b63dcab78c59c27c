import 'reflect-metadata';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import { ROUTES, type Route, type RouteKey } from '@toolfleet/contracts/resources';
import { compileSchema, explainErrors } from '@toolfleet/bounded-schema';
import { describe, expect, it } from 'vitest';
import { AuditChanges, isAudited } from '../server/change-log.js';
import { servedRoute } from '../server/routes.js';
import { GatewayModule, type GatewayModuleDeps } from '../wiring/gateway.module.js';
import { apiDocument } from './api-document.js';

const KEYS = Object.keys(ROUTES);
const TABLE = Object.entries(ROUTES) as [string, Route][];

/** Routes as Nest maps them, and as the table names them. */
function served(): { mapped: string; key: string | undefined; interceptors: unknown }[] {
  const { controllers = [] } = GatewayModule.with({
    instances: [],
    guards: [],
    local: true,
  } as unknown as GatewayModuleDeps);
  return controllers.flatMap((controller) =>
    Object.getOwnPropertyNames(controller.prototype).flatMap((name) => {
      const handler = controller.prototype[name] as object;
      if (Reflect.getMetadata('method', handler) === undefined) return [];
      const path = String(Reflect.getMetadata('path', handler));
      const base = String(Reflect.getMetadata('path', controller));
      const interceptors: unknown = Reflect.getMetadata('__interceptors__', handler) ?? [];
      return [{ mapped: `${base}/${path}`.replaceAll(/\/+/g, '/'), key: servedRoute(handler), interceptors }];
    }),
  );
}

it('the table has every route that Nest serves, and no other', () => {
  const keys = served().map(({ key }) => String(key));
  expect(keys.toSorted()).toEqual(KEYS.toSorted());
  for (const { mapped, key } of served()) expect(mapped).toBe(key?.split(' ')[1]?.replaceAll(/\{(\w+)\}/g, ':$1'));
});

it('each request that changes something passes the audit log, which shows members of its body other than secrets', () => {
  const unaudited = [...new Set(TABLE.flatMap(([, { id, audit }]) => (audit === 'none' ? [id] : [])))];
  expect(unaudited.toSorted()).toEqual(['echo', 'inspectSource', 'selectTools', 'testRule', 'validateOpenApi']);
  for (const { key, interceptors } of served())
    expect(interceptors, key).toEqual(isAudited(key as RouteKey) ? [AuditChanges] : []);
  for (const [key, { audit = [], body }] of TABLE) {
    if (typeof audit === 'string') continue;
    expect(Object.keys((body?.['properties'] ?? {}) as JsonObject), key).toEqual(expect.arrayContaining([...audit]));
    expect(audit.join(' '), key).not.toMatch(/secret|token\b|api_key|auth|header|url|code/);
  }
});

describe('the document', () => {
  const document = apiDocument('1.0.0') as { paths: Record<string, Record<string, JsonObject>> } & JsonObject;

  it('describes every route, and each under a name of its own', () => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ key: `${method.toUpperCase()} ${path}`, operation })),
    );
    expect(operations.map(({ key }) => key).toSorted()).toEqual(KEYS.toSorted());
    expect(new Set(operations.map(({ operation }) => operation['operationId'])).size).toBe(KEYS.length);
  });

  it('refers to schemas that it has, and has none that nothing refers to', () => {
    const text = JSON.stringify(document);
    const used = new Set([...text.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name));
    expect([...used].toSorted()).toEqual(
      Object.keys((document['components'] as JsonObject)['schemas'] as JsonObject).toSorted(),
    );
  });

  it('says where objects have any members, so that generated clients can send arguments', () => {
    expect(JSON.stringify(document)).not.toContain('{"type":"object"}');
  });

  it('has examples that its schemas accept, one for every body', () => {
    const faults = TABLE.flatMap(([key, { body, example, answers }]) => {
      const pairs = [
        ...(body ? [[body, example] as const] : []),
        ...Object.values(answers).flatMap(({ schema, example: shown }) =>
          schema && shown ? [[schema, shown] as const] : [],
        ),
      ];
      return pairs.flatMap(([schema, value]) => {
        if (value === undefined) return [`${key}: the body has no example`];
        return explainErrors(compileSchema(schema).errors(value)).map(
          ({ path, message }) => `${key} ${path}: ${message}`,
        );
      });
    });
    expect(faults).toEqual([]);
  });

  it('names the refusals that can happen: 404 where a path has members, 401 and 403 where a credential is needed', () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const { responses, security } of Object.values(methods)) {
        const statuses = Object.keys(responses as JsonObject);
        if (path.includes('{')) expect(statuses, path).toContain('404');
        for (const status of ['401', '403']) expect(statuses.includes(status), path).toBe(security === undefined);
      }
    }
  });
});

it('schemas that name a member as required declare it', () => {
  const undeclared: string[] = [];
  const walk = (value: Json, at: string): void => {
    if (Array.isArray(value)) value.forEach((item, index) => walk(item, `${at}/${index}`));
    else if (isJsonObject(value)) {
      const { required, properties } = value;
      if (Array.isArray(required) && isJsonObject(properties))
        for (const name of required)
          if (!Object.hasOwn(properties, String(name))) undeclared.push(`${at}: ${String(name)}`);
      for (const [key, part] of Object.entries(value)) walk(part, `${at}/${key}`);
    }
  };
  walk(apiDocument('1.0.0'), '');
  expect(undeclared).toEqual([]);
});
