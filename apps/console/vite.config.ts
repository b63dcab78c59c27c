import { defineConfig } from 'vite';

/** The console as static files under the gateway's `/console`; nothing inline, because its policy runs own files only. */
export default defineConfig({
  base: '/console/',
  build: {
    outDir: 'dist/web',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    target: 'es2023',
  },
});
