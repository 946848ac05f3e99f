// Ten clients of five real servers, configured direct, through a proxy each and through the one
// daemon: how many processes run, what memory they take, and when a client has its tools.
//
//	node daemon.mjs MCPSCHEDD WORK NODE_MODULES [CLAUDE]
//
// All that is started has WORK as its HOME, by which it is found in /proc. Every other client is
// of the older SDK. With CLAUDE, a Claude Code checks its connection while the ten are there.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client as ClientV2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as StdioV2 } from '@modelcontextprotocol/client/stdio'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js'

const [bin, work, modules, claude] = process.argv.slice(2)
const project = path.join(work, 'project')
mkdirSync(project, { recursive: true })
writeFileSync(path.join(project, 'hay.txt'), 'a needle\n')
const env = { ...process.env, HOME: work }
const clients = 10

// name → the file of the package, its arguments, its environment, and a call that needs no network
const shareable = {
	files: ['@modelcontextprotocol/server-filesystem/dist/index.js', [project], {}, 'read_text_file', { path: path.join(project, 'hay.txt') }],
	search: ['mcp-ripgrep/dist/index.js', [], {}, 'search', { pattern: 'needle', path: project }],
	github: ['@modelcontextprotocol/server-github/dist/index.js', [], { GITHUB_PERSONAL_ACCESS_TOKEN: 'none' }, 'get_issue', {}],
	database: ['@modelcontextprotocol/server-postgres/dist/index.js', ['postgresql://127.0.0.1:1/none'], {}, 'query', { sql: 'SELECT 1' }],
	library: ['@upstash/context7-mcp/dist/index.js', [], {}, 'resolve-library-id', {}],
}
const stateful = {
	memory: ['@modelcontextprotocol/server-memory/dist/index.js', [], { MEMORY_FILE_PATH: path.join(work, 'memory.jsonl') }, 'read_graph', {}],
	thinking: ['@modelcontextprotocol/server-sequential-thinking/dist/index.js', [], {}, 'sequentialthinking', { thought: 't', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }],
}

// open starts a client, and returns it and the milliseconds until it had its tools.
async function open(n, command, args, variables) {
	const [Client, Stdio] = n % 2 === 0 ? [ClientV2, StdioV2] : [ClientV1, StdioV1]
	const client = new Client({ name: `client-${n}`, version: '1' }, { capabilities: {} })
	const began = performance.now()
	await client.connect(new Stdio({ command, args, cwd: project, env: { ...env, ...variables }, stderr: 'ignore' }))
	const { tools } = await client.listTools()
	return { client, ms: performance.now() - began, tools }
}

// call has each server asked once, so that each of them runs.
async function call({ client, tools }, servers) {
	for (const [name, [, , , tool, args]] of Object.entries(servers)) {
		const found = tools.find((t) => t.name === tool || t.name === `${name}__${tool}`)
		if (found === undefined) throw new Error(`no tool ${tool}`)
		await client.callTool({ name: found.name, arguments: args }).catch(() => {}) // it answers, if with an error
	}
}

// processes are those that came of this script: they have its HOME, or are children of one that
// has, as a guard is, which has no environment.
function processes() {
	const found = new Map() // id → id of the parent
	for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
		try {
			const parent = Number(readFileSync(`/proc/${pid}/stat`, 'latin1').match(/.*\) \S (\d+)/s)[1])
			const ours = readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(`HOME=${work}`)
			found.set(Number(pid), ours ? 0 : parent)
		} catch { /* it has ended */ }
	}
	return [...found].filter(([, parent]) => parent === 0 || found.get(parent) === 0).map(([pid]) => pid)
}

// taken is how many processes run for the clients, how many of them are servers, and their memory.
function taken() {
	const all = { processes: 0, servers: 0, mib: 0 }
	for (const pid of processes()) {
		try {
			all.mib += Number(readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1').match(/^Pss: *(\d+)/m)[1]) / 1024
			all.processes++
			if (readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(modules)) all.servers++
		} catch { /* it has ended */ }
	}
	return all
}

async function gone() {
	for (let i = 0; i < 300; i++) {
		if (processes().length === 0) return true
		await sleep(100)
	}
	return false
}

function configuration(name, servers) {
	const file = path.join(work, `${name}.toml`)
	const list = (values) => `[${values.map((v) => JSON.stringify(v)).join(', ')}]`
	writeFileSync(file, `[server]\nstate_dir = "${work}/${name}"\nname_style = "always"\nstartup_wait = "30s"\n[daemon]\nidle = "2s"\n` +
		Object.entries(servers).map(([upstream, [script, args, variables]]) =>
			`[upstreams.${upstream}]\ncommand = "node"\nargs = ${list([path.join(modules, script), ...args])}\n` +
			`env = { ${Object.entries(variables).map(([k, v]) => `${k} = ${JSON.stringify(v)}`).join(', ')} }\n`).join(''))
	return file
}

let failed = 0
function check(label, good) {
	console.log(`${good ? 'ok  ' : 'FAIL'} ${label}`)
	if (!good) failed++
}

// measure opens ten clients by start, which returns those of one, and prints what runs then.
async function measure(label, servers, start, during = () => {}) {
	const open = []
	const ms = []
	for (let n = 0; n < clients; n++) {
		const own = await start(n)
		for (const one of own) await call(one, own.length === 1 ? servers : Object.fromEntries([one.server]))
		open.push(...own)
		ms.push(Math.max(...own.map((one) => one.ms)))
	}
	await sleep(1000)
	const now = taken()
	console.log(`${label.padEnd(44)} ${String(now.servers).padStart(3)} servers, ${String(now.processes).padStart(3)} processes, ${now.mib.toFixed(0).padStart(5)} MiB; tools: first client ${ms[0].toFixed(0)} ms, second ${ms[1].toFixed(0)}, the others at most ${Math.max(...ms.slice(2)).toFixed(0)}`)
	await during()
	for (const { client } of open) await client.close()
	check(`${label}: nothing is left`, await gone())
	return { ...now, second: ms[1] }
}

const direct = async (n) => {
	const own = []
	for (const server of Object.entries(shareable)) {
		const [, [script, args, variables]] = server
		own.push({ ...await open(n, 'node', [path.join(modules, script), ...args], variables), server })
	}
	return own
}
const through = (command, file) => async (n) => [await open(n, ...command(file), {})]
const serve = (file) => [bin, ['serve', '--config', file]]
const connect = (file) => [`${bin}-small`, ['connect', '--config', file]] // as import writes it
const both = { ...shareable, ...stateful }

const alone = await measure('direct', shareable, direct)
await measure('serve', shareable, through(serve, configuration('serve', shareable)))
const file = configuration('connect', shareable)
const shared = await measure('connect', shareable, through(connect, file), () => {
	if (claude === undefined) return
	execFileSync(claude, ['mcp', 'add-json', 'prox', JSON.stringify({ type: 'stdio', command: connect(file)[0], args: connect(file)[1] })], { cwd: project, env, stdio: 'ignore' })
	check('claude mcp list: connected', /^prox: .*✔ Connected/m.test(execFileSync(claude, ['mcp', 'list'], { cwd: project, env, encoding: 'utf8' })))
})
const mixed = await measure('connect, two more that hold a session\'s state', both, through(connect, configuration('both', both)))
check('five servers for all', shared.servers === 5)
check('ten more of each of the others', mixed.servers === 5 + 2 * clients)
check('a quarter of the memory of ten direct configurations, at most', shared.mib <= alone.mib / 4)
check('the second client has its tools within 50 ms', shared.second <= 50)
process.exit(failed === 0 ? 0 : 1)
