/** Specs run the source, everything else the build: the extension is that of this very file. */
const FROM_SOURCE = import.meta.url.endsWith('.ts');

/** Lets a child load TypeScript whose imports end in `.js`. */
const SOURCE_HOOK = `import { registerHooks } from 'node:module';
registerHooks({ resolve(name, context, next) {
  try { return next(name, context); } catch (error) {
    if (!name.endsWith('.js')) throw error;
    return next(name.slice(0, -3) + '.ts', context);
  }
} });`;

/** The program of a child, beside this file. */
export function childEntry(): URL {
  return new URL(`./bounded-child${FROM_SOURCE ? '.ts' : '.js'}`, import.meta.url);
}

/** Flags of Node a child needs to load its program; none for the build. */
export function childFlags(): string[] {
  if (!FROM_SOURCE) return [];
  const hook = `data:text/javascript,${encodeURIComponent(SOURCE_HOOK)}`;
  return [
    '--conditions=source',
    '--experimental-transform-types',
    '--disable-warning=ExperimentalWarning',
    '--import',
    hook,
  ];
}
