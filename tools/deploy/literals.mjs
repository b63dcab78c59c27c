/** A TypeScript file with each object as a typed literal: the compiler then finds every field no model knows. */
import { modelModule, OWN_MODELS } from './models.mjs';

/** @returns {string} text of a module; type-checking it is the check */
export function literals(objects) {
  const imports = new Map();
  const lines = objects.map((object, index) => {
    let type = OWN_MODELS[object.apiVersion];
    if (type === undefined) {
      const id = `${modelModule(object.apiVersion)} I${object.kind}`;
      if (!imports.has(id)) imports.set(id, `T${imports.size}`);
      type = imports.get(id);
    }
    return `/* ${object.kind} ${object.metadata?.name} */\nexport const d${index}: ${type} = ${JSON.stringify(object, null, 2)};`;
  });
  const head = [...imports].map(([id, alias]) => {
    const [module, name] = id.split(' ');
    return `import type { ${name} as ${alias} } from '${module}';`;
  });
  return `${[...head, ...lines].join('\n')}\n`;
}
