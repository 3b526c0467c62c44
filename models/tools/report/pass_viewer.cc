#include "models/tools/report/pass_viewer.h"

namespace modeld::tools {

const char* const kPassViewer = R"(
'use strict';
(() => {
  const at = id => document.getElementById(id);
  const kernels = JSON.parse(at('pass-data').textContent);
  const pick = at('pass-kernel');
  let kernel = null, step = 0;
  const unpack = async packed => {
    const bytes = Uint8Array.from(atob(packed), c => c.charCodeAt(0));
    const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
    return JSON.parse(await new Response(text).text());
  };
  const numbers = runs => runs.split(',').flatMap(run => {
    const [first, last = first] = run.split('-').map(Number);
    return Array.from({length: last - first + 1}, (_, i) => first + i);
  });
  const linesAfter = index => {
    while (kernel.passes[index].lines === undefined) index -= 1;
    return numbers(kernel.passes[index].lines);
  };
  const fill = (pane, lines, others, mark) => {
    const known = new Set(others);
    pane.replaceChildren(...lines.map(i => {
      const row = document.createElement('div');
      row.textContent = kernel.text[i];
      if (!known.has(i)) row.className = mark;
      return row;
    }));
    const first = mark === '' ? null : pane.querySelector('.' + mark);
    pane.scrollTop = first === null ? 0 : first.offsetTop - pane.offsetTop - 40;
  };
  const showStep = () => {
    const after = linesAfter(step);
    const before = step === 0 ? [] : linesAfter(step - 1);
    const pass = kernel.passes[step];
    at('pass-why').textContent = pass.name + ': ' + pass.why;
    at('pass-before-name').textContent = step === 0 ? '' : 'before ' + pass.name + ', ' + before.length + ' nodes';
    at('pass-after-name').textContent = 'after ' + pass.name + ', ' + after.length + ' nodes';
    fill(at('pass-before'), before, after, 'gone');
    fill(at('pass-after'), after, before, step === 0 ? '' : 'new');
    [...at('pass-steps').children].forEach((b, i) => b.setAttribute('aria-pressed', i === step));
  };
  const showKernel = async () => {
    const choice = pick.value;
    const unpacked = await unpack(kernels[choice].packed);
    if (pick.value !== choice) return;
    kernel = unpacked;
    step = Math.min(step, kernel.passes.length - 1);
    at('pass-steps').replaceChildren(...kernel.passes.map((pass, i) => {
      const button = document.createElement('button');
      button.textContent = pass.name;
      button.title = pass.why;
      if (!pass.changed) button.className = 'same';
      button.onclick = () => { step = i; showStep(); };
      return button;
    }));
    const source = at('source-' + pick.value);
    at('pass-source').textContent = source === null ? '' : source.textContent;
    showStep();
  };
  const show = () => showKernel().catch(e => { at('pass-why').textContent = 'cannot be shown: ' + e; });
  pick.onchange = show;
  if (kernels.length > 0) show();
})();
)";

}  // namespace modeld::tools
