! SPDX-License-Identifier: BSD-3-Clause
!
! systems/halo/api/hk_halo.f90: the halo library for Fortran. hikyaku/halo.h describes each
! procedure. The differences: MPI's handles are integers (as in mpi and mpif.h; with mpi_f08 use
! their MPI_VAL), columns count from 1, and arrays are in Fortran's order.
!
!     use hk_halo
!     type(hk_halo_t) :: h
!     call hk_halo_cart(cart, interior, width, HK_HALO_STAR, [c_loc(u)], MPI_REAL8, h, ierr)
!     call hk_halo_put(h, ierr)
!     call hk_halo_wait(h, ierr)
!     call hk_halo_free(h, ierr)
!
! ierr is 0 or a negative errno; hk_halo_error() returns the text. Exchanged variables need the
! attribute target, and asynchronous where the compiler could move accesses across hk_halo_wait().
module hk_halo
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int), parameter, public :: HK_HALO_STAR = 0, HK_HALO_BOX = 1

  type, public :: hk_halo_t
    private
    type(c_ptr) :: p = c_null_ptr
  end type

  type, public :: hk_halo_csr_t
    private
    type(c_ptr) :: p = c_null_ptr
  end type

  ! The data to and from one neighbour; send and recv are c_loc() of the first element.
  type, bind(c), public :: hk_edge
    integer(c_int) :: peer, tag
    type(c_ptr) :: send = c_null_ptr
    integer(c_int) :: send_count = 0, send_type = 0
    type(c_ptr) :: recv = c_null_ptr
    integer(c_int) :: recv_count = 0, recv_type = 0
  end type

  public :: hk_halo_setup, hk_halo_cart, hk_halo_csr, hk_halo_csr_setup, hk_halo_csr_free
  public :: hk_halo_put, hk_halo_wait, hk_halo_ready, hk_halo_wait_some, hk_halo_free, hk_halo_error
  public :: hk_halo_transport

  interface
    integer(c_int) function setup_c(comm, n, edges, h) bind(c, name='hk_halo_setup_f')
      import
      integer(c_int), value :: comm, n
      type(hk_edge), intent(in) :: edges(*)
      type(c_ptr), intent(out) :: h
    end function
    integer(c_int) function cart_c(cart, interior, width, stencil, fields, field, element, h) &
      bind(c, name='hk_halo_cart_f')
      import
      integer(c_int), value :: cart, stencil, fields, element
      integer(c_int), intent(in) :: interior(*), width(*)
      type(c_ptr), intent(in) :: field(*)
      type(c_ptr), intent(out) :: h
    end function
    integer(c_int) function csr_c(comm, rows, entries, column, local, ghosts, plan) &
      bind(c, name='hk_halo_csr_f')
      import
      integer(c_int), value :: comm, rows
      integer(c_long_long), value :: entries
      integer(c_long_long), intent(in) :: column(*)
      integer(c_int), intent(out) :: local(*), ghosts
      type(c_ptr), intent(out) :: plan
    end function
    integer(c_int) function csr_setup_c(plan, fields, vector, element, h) &
      bind(c, name='hk_halo_csr_setup_f')
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: fields, element
      type(c_ptr), intent(in) :: vector(*)
      type(c_ptr), intent(out) :: h
    end function
    subroutine csr_free_c(plan) bind(c, name='hk_halo_csr_free')
      import
      type(c_ptr), intent(inout) :: plan
    end subroutine
    integer(c_int) function put_c(h) bind(c, name='hk_halo_put')
      import
      type(c_ptr), value :: h
    end function
    integer(c_int) function wait_c(h) bind(c, name='hk_halo_wait')
      import
      type(c_ptr), value :: h
    end function
    integer(c_int) function ready_c(h, edge) bind(c, name='hk_halo_ready')
      import
      type(c_ptr), value :: h
      integer(c_int), value :: edge
    end function
    integer(c_int) function wait_some_c(h, length, which) bind(c, name='hk_halo_wait_some_f')
      import
      type(c_ptr), value :: h
      integer(c_int), value :: length
      integer(c_int), intent(inout) :: which(*)
    end function
    type(c_ptr) function transport_c(h, peer, why) bind(c, name='hk_halo_transport')
      import
      type(c_ptr), value :: h
      integer(c_int), value :: peer
      type(c_ptr), intent(out) :: why
    end function
    subroutine refuse_next_c(message) bind(c, name='hk_halo_refuse_next')
      import
      character(kind=c_char), intent(in) :: message(*)
    end subroutine
    integer(c_int) function cart_dims_c(cart) bind(c, name='hk_halo_cart_dims_f')
      import
      integer(c_int), value :: cart
    end function
    integer(c_int) function free_c(h) bind(c, name='hk_halo_free')
      import
      type(c_ptr), intent(inout) :: h
    end function
    integer(c_int) function error_c(text, length) bind(c, name='hk_halo_error_f')
      import
      character(kind=c_char), intent(out) :: text(*)
      integer(c_int), value :: length
    end function
  end interface

contains

  subroutine hk_halo_setup(comm, edges, h, ierr)
    integer, intent(in) :: comm
    type(hk_edge), intent(in) :: edges(:)
    type(hk_halo_t), intent(out) :: h
    integer, intent(out) :: ierr
    ierr = setup_c(comm, size(edges), edges, h%p)
  end subroutine

  subroutine hk_halo_cart(cart, interior, width, stencil, fields, element, h, ierr)
    integer, intent(in) :: cart, interior(:), width(:), element
    integer(c_int), intent(in) :: stencil
    type(c_ptr), intent(in) :: fields(:)
    type(hk_halo_t), intent(out) :: h
    integer, intent(out) :: ierr
    if (min(size(interior), size(width)) < cart_dims_c(cart)) &
      call refuse_next_c('interior or width has fewer elements than the grid has dimensions; '// &
        'fix: give one for each dimension'//c_null_char)
    ierr = cart_c(cart, interior, width, stencil, size(fields), fields, element, h%p)
  end subroutine

  ! local(k) is the place of column(k) in this rank's vector; 1 to rows are the rank's own.
  subroutine hk_halo_csr(comm, rows, column, local, ghosts, plan, ierr)
    integer, intent(in) :: comm, rows
    integer(c_long_long), intent(in) :: column(:)
    integer(c_int), intent(out) :: local(:), ghosts
    type(hk_halo_csr_t), intent(out) :: plan
    integer, intent(out) :: ierr
    if (size(local) < size(column)) &
      call refuse_next_c('local has fewer elements than column; fix: give it as many'//c_null_char)
    ierr = csr_c(comm, rows, size(column, kind=c_long_long), column, local, ghosts, plan%p)
  end subroutine

  subroutine hk_halo_csr_setup(plan, vectors, element, h, ierr)
    type(hk_halo_csr_t), intent(in) :: plan
    type(c_ptr), intent(in) :: vectors(:)
    integer, intent(in) :: element
    type(hk_halo_t), intent(out) :: h
    integer, intent(out) :: ierr
    ierr = csr_setup_c(plan%p, size(vectors), vectors, element, h%p)
  end subroutine

  subroutine hk_halo_csr_free(plan)
    type(hk_halo_csr_t), intent(inout) :: plan
    call csr_free_c(plan%p)
  end subroutine

  subroutine hk_halo_put(h, ierr)
    type(hk_halo_t), intent(in) :: h
    integer, intent(out) :: ierr
    ierr = put_c(h%p)
  end subroutine

  subroutine hk_halo_wait(h, ierr)
    type(hk_halo_t), intent(in) :: h
    integer, intent(out) :: ierr
    ierr = wait_c(h%p)
  end subroutine

  ! Edges count from 1. ierr is 0 or a negative errno. After an error the result is .false.
  logical function hk_halo_ready(h, edge, ierr)
    type(hk_halo_t), intent(in) :: h
    integer, intent(in) :: edge
    integer, intent(out), optional :: ierr
    integer :: rc
    rc = ready_c(h%p, edge - 1)
    hk_halo_ready = rc == 1
    if (present(ierr)) ierr = min(rc, 0)
  end function

  ! which(1:n) become the edges that have arrived since the last call. Edges count from 1; the
  ! array has one element for each edge.
  subroutine hk_halo_wait_some(h, which, n, ierr)
    type(hk_halo_t), intent(in) :: h
    integer(c_int), intent(inout) :: which(:)
    integer, intent(out) :: n, ierr
    n = wait_some_c(h%p, size(which), which)
    ierr = min(n, 0)
    n = max(n, 0)
  end subroutine

  ! 'worker', 'libfabric', 'mpi' or 'self'; '' if peer is not a neighbour.
  function hk_halo_transport(h, peer) result(name)
    type(hk_halo_t), intent(in) :: h
    integer, intent(in) :: peer
    character(len=:), allocatable :: name
    character(kind=c_char), pointer :: text(:)
    type(c_ptr) :: p, why
    integer :: k
    name = ''
    p = transport_c(h%p, peer, why)
    if (.not. c_associated(p)) return
    call c_f_pointer(p, text, [32])
    do k = 1, size(text)
      if (text(k) == c_null_char) exit
      name = name//text(k)
    end do
  end function

  subroutine hk_halo_free(h, ierr)
    type(hk_halo_t), intent(inout) :: h
    integer, intent(out) :: ierr
    ierr = free_c(h%p)
  end subroutine

  function hk_halo_error() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char, len=512) :: buffer
    integer :: n
    n = error_c(buffer, len(buffer))
    text = buffer(1:n)
  end function

end module
