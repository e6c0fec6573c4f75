// Write the bundle: `node build.mjs [FOLDER]`; by default into the Python package, which serves it.
import { build } from 'esbuild'
import { copyFileSync, mkdirSync, rmSync } from 'node:fs'

const folder = process.argv[2] ?? '../src/interlock/dashboard'
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
await build({
  entryPoints: { app: 'src/main.tsx' },
  outdir: folder,
  bundle: true,
  splitting: true,
  format: 'esm',
  target: 'es2022',
  minify: true,
  legalComments: 'none',
  charset: 'utf8',
  chunkNames: '[name]-[hash]',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
})
for (const name of ['index.html', 'icon.svg']) copyFileSync(`src/${name}`, `${folder}/${name}`)
